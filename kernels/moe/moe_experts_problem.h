// A moe_experts problem as numbers. Plain values; immutable once made; thread-safe.
#pragma once

#include "kernels/moe/moe_problem.h"

namespace moetune {

// Values of a row of x that share a scale in e4m3, and rows and columns of weights (templates/moe_experts/shape.cuh).
inline constexpr std::int64_t kExpertsScaleGroup = 128;

inline constexpr std::int64_t kMostExpertsAlign = 16;

// A block of packed weights (templates/common/mxfp4.cuh).
inline constexpr std::int64_t kPackedRows = 16, kPackedDepth = 64;
inline constexpr std::int64_t kPackedValueBytes = 512, kPackedScaleBytes = 32;

struct MoeExpertsShape : MoeShape {
  explicit MoeExpertsShape(const Problem& problem);

  // The same family with so many tokens.
  MoeExpertsShape at(const Extents& extents) const;

  std::int64_t experts() const { return sizes.experts; }

  enum class Part { whole, up, down };
  bool has_up() const { return part != Part::down; }
  bool has_down() const { return part != Part::up; }

  // An expert's weights as they lie: rows of values that are side by side.
  struct Matrix {
    std::int64_t rows, columns;
  };
  Matrix gate_up() const { return matrix(2 * intermediate, hidden); }
  Matrix down() const { return matrix(hidden, intermediate); }

  // Values of a row of x, and of the output; and how many of them there are.
  std::int64_t x_width() const { return has_up() ? hidden : intermediate; }
  std::int64_t out_width() const { return has_down() ? hidden : intermediate; }
  std::int64_t x_rows(std::int64_t places) const { return x_places ? places : tokens; }
  std::int64_t out_rows(std::int64_t places) const { return out_places ? places : tokens; }

  std::int64_t unit() const { return 16 / dtype_bytes(operand); }  // elements that all strides are multiples of
  bool narrow() const { return operand == DType::e4m3; }

  // A packed matrix of weights of all experts: its bytes, and those of its scales (templates/common/mxfp4.cuh).
  std::int64_t packed_values(std::int64_t rows, std::int64_t columns) const;
  std::int64_t packed_scales(std::int64_t rows, std::int64_t columns) const;

  // Places of `sorted` that a call may have: the router's with its segments at multiples of kMostExpertsAlign. What
  // lies between the launches has as many rows, and a workspace is asked for before lists are seen.
  std::int64_t most_places() const;

  // In e4m3: scales of a row of x, of all of w_gate_up, and of all of w_down.
  std::int64_t x_scales() const { return x_width() / kExpertsScaleGroup; }
  std::int64_t down_scales() const {
    return experts() * (hidden / kExpertsScaleGroup) * (intermediate / kExpertsScaleGroup);
  }
  std::int64_t gate_up_scales() const { return 2 * down_scales(); }

  std::int64_t intermediate;
  DType dtype;    // of the output
  DType operand;  // of x, and of weights that are not packed: `dtype`, or e4m3 with scales
  bool packed;    // weights are mxfp4
  bool biased;    // gpt-oss' activation and biases, and rows of gate and up in turn
  Part part;
  bool x_places, out_places;  // rows of x, and of the output, are those of places, without gaps
  bool n_major;               // weights are [experts, K, N]

 private:
  Matrix matrix(std::int64_t width, std::int64_t depth) const {
    return n_major ? Matrix{depth, width} : Matrix{width, depth};
  }
};

// The fields of a call, in their order; the first two are those of MoeCallInteger, of x.
enum MoeExpertsInteger {
  kExpertsOutRow = kMoePlaces + 1,
  kExpertsUpRow,
  kExpertsUpExpert,
  kExpertsDownRow,
  kExpertsDownExpert,
};

const ProblemSchema& moe_experts_schema();
// Its strides are those of tensors without gaps; it has no places.
Call contiguous_experts_call(const MoeExpertsShape& shape);
void check_moe_experts(const Problem& problem);                               // throws BadInput
void check_moe_experts_call(const MoeExpertsShape& shape, const Call& call);  // throws BadInput

}  // namespace moetune
