// moe_experts: the experts' products of a mixture-of-experts layer, from a token's row to its output
// (docs/moe_experts.md).
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/integers.h"
#include "kernels/family_interface.h"
#include "kernels/moe/moe_experts_plan.h"
#include "kernels/moe/moe_experts_problem.h"
#include "kernels/moe/moe_kernel.h"
#include "kernels/moe/tokens_family.h"

namespace moetune {
namespace {

// The order is part of the C interface (include/moetune_kernels.h).
enum ExpertsSlot {
  kExpertsX,
  kExpertsSorted,
  kExpertsOffsets,
  kExpertsInverse,
  kExpertsWeights,
  kExpertsGateUp,
  kExpertsDown,
  kExpertsOut,
  kExpertsXScale,
  kExpertsGateUpScale,
  kExpertsDownScale,
  kExpertsGateUpBias,
  kExpertsDownBias
};

// Tensors, in the order of the C interface: x [tokens, hidden], whose rows may lie apart; sorted i32 [places], offsets
// i32 [experts + 1] and inverse i32 [tokens, top_k] as the router writes them; weights f32 [tokens, top_k]; w_gate_up
// [experts, 2 * intermediate, hidden], the rows of gate before those of up; w_down [experts, hidden, intermediate]; out
// [tokens, hidden]. Rows of all but the lists may lie apart. No options. The axis of its table is the number of tokens.
class MoeExpertsFamily final : public TokensFamily {
 public:
  explicit MoeExpertsFamily(const MoeExpertsShape& shape)
      : TokensFamily(
            "moe_experts",
            {{"x", shape.operand, Role::input, true, 16},
             {"sorted", DType::i32, Role::input, !shape.x_places, 4},
             {"offsets", DType::i32, Role::input, true, 4},
             {"inverse", DType::i32, Role::input, !shape.out_places, 4},
             {"weights", DType::f32, Role::input, !shape.out_places, 4},
             {"w_gate_up", weights(shape), Role::input, shape.has_up(), 16},
             {"w_down", weights(shape), Role::input, shape.has_down(), 16},
             {"out", shape.dtype, Role::output, true, 16},
             {"x_scale", DType::f32, Role::input, shape.narrow(), 4},
             {"gate_up_scale", scales(shape), Role::input, is_scaled(shape) && shape.has_up(), shape.packed ? 16 : 4},
             {"down_scale", scales(shape), Role::input, is_scaled(shape) && shape.has_down(), shape.packed ? 16 : 4},
             {"gate_up_bias", shape.dtype, Role::input, shape.biased && shape.has_up(), 4},
             {"down_bias", shape.dtype, Role::input, shape.biased && shape.has_down(), 4}}),
        shape_(shape) {}

  void check_call(const Extents& extents, const Call& call) const override {
    check_moe_experts_call(shape_.at(extents), call);
  }

  void bind(std::span<const TensorView* const> tensors, std::string_view options, Extents& extents,
            Call& call) const override {
    if (!options.empty()) refuse("unknown option '" + std::string(options) + "'; there are none");
    const TensorView& x = matrix(tensors, kExpertsX, shape_.x_places ? "places" : "tokens", shape_.x_width());
    const TensorView& out = matrix(tensors, kExpertsOut, shape_.out_places ? "places" : "tokens", shape_.out_width());
    const std::int64_t places = shape_.x_places ? x.shape[0] : entries(tensors, kExpertsSorted, "[places]", 1);
    // Without a tensor of tokens' rows: as many as have so many places without padding.
    const std::int64_t tokens = !shape_.x_places    ? x.shape[0]
                                : shape_.out_places ? ceil_div(places, shape_.top_k)
                                                    : entries(tensors, kExpertsInverse, "[tokens, top_k]", 2);
    check({tokens});
    const std::int64_t out_rows = shape_.out_places ? places : tokens;
    if (out.shape[0] != out_rows)
      refuse("tensor 'out' has " + std::to_string(out.shape[0]) + " rows; it must have " + std::to_string(out_rows));
    Call made = contiguous_experts_call(shape_);
    if (x.shape[0] > 1) made.integers[kMoeRow] = x.strides[0];
    made.integers[kMoePlaces] = places;
    if (out_rows > 1) made.integers[kExpertsOutRow] = out.strides[0];
    if (shape_.has_up() && !shape_.packed)
      bind_matrices(tensors, kExpertsGateUp, 2 * shape_.intermediate, shape_.hidden, made, kExpertsUpRow);
    if (shape_.has_down() && !shape_.packed)
      bind_matrices(tensors, kExpertsDown, shape_.hidden, shape_.intermediate, made, kExpertsDownRow);
    check_moe_experts_call(shape_.at({tokens}), made);
    require(tensors, kExpertsSorted, places);
    require(tensors, kExpertsOffsets, shape_.experts() + 1);
    require(tensors, kExpertsInverse, tokens * shape_.top_k);
    require(tensors, kExpertsWeights, tokens * shape_.top_k);
    if (shape_.narrow()) {
      require(tensors, kExpertsXScale, x.shape[0] * shape_.x_scales());
      require(tensors, kExpertsGateUpScale, shape_.gate_up_scales());
      require(tensors, kExpertsDownScale, shape_.down_scales());
    }
    const std::int64_t up = 2 * shape_.intermediate;
    if (shape_.packed) {  // slots that the family lacks pass
      require(tensors, kExpertsGateUp, shape_.packed_values(up, shape_.hidden));
      require(tensors, kExpertsDown, shape_.packed_values(shape_.hidden, shape_.intermediate));
      require(tensors, kExpertsGateUpScale, shape_.packed_scales(up, shape_.hidden));
      require(tensors, kExpertsDownScale, shape_.packed_scales(shape_.hidden, shape_.intermediate));
    }
    if (shape_.biased) {
      require(tensors, kExpertsGateUpBias, shape_.experts() * up);
      require(tensors, kExpertsDownBias, shape_.experts() * shape_.hidden);
    }
    extents = {tokens};
    call = made;
  }

 private:
  static DType weights(const MoeExpertsShape& shape) { return shape.packed ? DType::u8 : shape.operand; }
  static DType scales(const MoeExpertsShape& shape) { return shape.packed ? DType::u8 : DType::f32; }
  static bool is_scaled(const MoeExpertsShape& shape) { return shape.packed || shape.narrow(); }

  // The first size of a tensor with so many dimensions.
  std::int64_t entries(std::span<const TensorView* const> tensors, std::size_t slot, const char* text,
                       std::size_t dimensions) const {
    const TensorView& tensor = require_tensor(this->tensors(), tensors, slot);
    if (tensor.shape.size() != dimensions) refuse("tensor '" + this->tensors()[slot].name.text() + "' must be " + text);
    return tensor.shape[0];
  }

  // Weights [experts, rows, columns], whose strides are `field` of the call and the next. Of n_major columns' values
  // are side by side: a view of [experts, columns, rows].
  void bind_matrices(std::span<const TensorView* const> tensors, std::size_t slot, std::int64_t rows,
                     std::int64_t columns, Call& call, std::size_t field) const {
    const TensorView& all = require_tensor(this->tensors(), tensors, slot);
    const std::size_t dense = shape_.n_major ? 1 : 2;
    const bool fits = all.shape.size() == 3 && all.shape[0] == shape_.experts() && all.shape[1] == rows &&
                      all.shape[2] == columns && all.strides[dense] == 1;
    if (!fits)
      refuse("tensor '" + this->tensors()[slot].name.text() + "' must be [" + std::to_string(shape_.experts()) + ", " +
             std::to_string(rows) + ", " + std::to_string(columns) + "], the values of a " +
             (shape_.n_major ? "column" : "row") + " side by side");
    call.integers[field] = all.strides[3 - dense];
    call.integers[field + 1] = all.strides[0];
  }

  MoeExpertsShape shape_;
};

// Weights of every expert. A product of them keeps the size of its row's values: e4m3 by its scales.
Buffer expert_weights(const char* name, DType dtype, const MoeMatrices& matrices, std::int64_t depth) {
  Buffer buffer = matrices.buffer(name, dtype);
  if (dtype != DType::e4m3) buffer.fill.scale = 1 / std::sqrt(static_cast<float>(depth));
  return buffer;
}

// Blocks of mxfp4 without gaps: any bits are values.
Buffer packed_weights(const char* name, std::int64_t bytes) {
  Buffer values{.name = name, .dtype = DType::u8, .elements = bytes, .rotates = true};
  values.fill = {.kind = Fill::Kind::zipf, .scale = 0, .values = 256};
  return values;
}

// Their scales, so that a product of `terms` keeps the size of its row's values: three powers of two or four.
Buffer packed_scales(const char* name, std::int64_t bytes, std::int64_t terms) {
  constexpr double kMeanCode = 2.93,
                   kUsualFill = 0.6;  // root mean square of e2m1; of what `normal` adds in bits
  const double exponent = -std::log2(kMeanCode * std::sqrt(static_cast<double>(terms))) - kUsualFill;
  Buffer scales{.name = name, .dtype = DType::u8, .elements = bytes, .rotates = true};
  scales.fill = {
      .kind = Fill::Kind::columns, .scale = 1.2f, .shifts = {static_cast<float>(std::round(253 + exponent))}};
  return scales;
}

Buffer expert_biases(const char* name, DType dtype, std::int64_t count) {
  Buffer biases{.name = name, .dtype = dtype, .elements = count, .rotates = true};
  biases.fill = {.kind = Fill::Kind::normal, .scale = 0.5f};
  return biases;
}

// Scales around `mean`.
Buffer expert_scales(const char* name, std::int64_t count, float mean) {
  Buffer scales{.name = name, .elements = count, .rotates = true};
  scales.fill = {.kind = Fill::Kind::columns, .scale = mean / 8, .shifts = {mean}};
  return scales;
}

// Rows of x; those of places that no segment has are never read.
Buffer expert_rows(const MoeExpertsShape& shape, const Call& call, const RoutingPlan& routing) {
  if (!shape.x_places) return moe_x(shape, shape.operand, call.integers[kMoeRow]);
  const std::int64_t places = call.integers[kMoePlaces], width = shape.x_width();
  const std::int64_t filled = std::min<std::int64_t>(routing.offsets.back(), places);
  Buffer x = MoeMatrices{1, places, width, width, 0}.buffer("x", shape.operand);
  x.fresh = true;
  if (filled < places) x.fill.poison.push_back({filled * width, (places - filled) * width});
  return x;
}

Buffer expert_out(const MoeExpertsShape& shape, const Call& call) {
  const bool quantizes = shape.narrow() && shape.part == MoeExpertsShape::Part::whole;
  Buffer out = moe_out(shape, shape.dtype, call.integers[kExpertsOutRow],
                       {.dissimilarity = quantizes ? 2e-3 : 1e-4, .baseline_factor = 2.0});
  if (shape.out_places) out.elements = call.integers[kMoePlaces] * shape.out_width();
  return out;
}

class MoeExperts final : public MoeKernel {
 public:
  MoeExperts()
      : MoeKernel(
            "moe_experts", "the experts' products: gate and up with SwiGLU, down, and the sum over a token's experts",
            {"hidden", "experts", "top_k", "intermediate", "dtype", "w", "activation", "part", "x", "out", "layout"},
            {{"x_row", "elements from a row of x to the next"},
             {"places", "places of sorted"},
             {"out_row", "elements from a row of the output to the next"},
             {"up_row", "elements from a row of w_gate_up to the next"},
             {"up_expert", "elements from an expert's w_gate_up to the next expert's"},
             {"down_row", "elements from a row of w_down to the next"},
             {"down_expert", "elements from an expert's w_down to the next expert's"}}) {}

  const ProblemSchema& schema() const override { return moe_experts_schema(); }
  const std::vector<Preset>& presets() const override {
    static const std::vector<Preset> presets = moe_experts_presets();
    return presets;
  }
  void check(const Problem& problem) const override { check_moe_experts(problem); }

  Call default_call(const Problem& problem) const override {
    const MoeExpertsShape shape(problem);
    Call call = contiguous_experts_call(shape);
    call.integers[kMoePlaces] = shape.sizes.places();
    return call;
  }

  void check_call(const Problem& problem, const Call& call) const override {
    check_moe_experts_call(MoeExpertsShape(problem), call);
  }

  std::unique_ptr<const FamilyInterface> family_interface(const Problem& problem) const override {
    return std::make_unique<MoeExpertsFamily>(MoeExpertsShape(problem));
  }

  std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t seed) const override {
    const MoeExpertsShape shape(problem);
    RoutingPlan routing = shape.routing(call.integers[kMoePlaces], seed);
    std::vector<Buffer> buffers{expert_rows(shape, call, routing)};
    if (!shape.x_places) {
      buffers.push_back(moe_list("sorted", std::move(routing.sorted)));
      buffers.back().fresh = true;
    }
    buffers.push_back(moe_list("offsets", std::move(routing.offsets)));
    buffers.back().fresh = true;
    // In another order the same places belong to other experts, as in a model's next layer or step.
    buffers.back().sequences = shape.experts();
    buffers.back().offsets = true;
    if (!shape.out_places) {
      buffers.push_back(moe_list("inverse", std::move(routing.inverse)));
      buffers.push_back(moe_weights(shape));
    }
    add_weights(shape, call, buffers);
    add_scales(shape, call, buffers);
    if (shape.biased && shape.has_up())
      buffers.push_back(expert_biases("gate_up_bias", shape.dtype, shape.experts() * 2 * shape.intermediate));
    if (shape.biased && shape.has_down())
      buffers.push_back(expert_biases("down_bias", shape.dtype, shape.experts() * shape.hidden));
    buffers.push_back(expert_out(shape, call));
    return buffers;
  }

  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    return moe_experts_launcher(config, MoeExpertsShape(problem), limits);
  }

  Plan reference(Reference which, const Problem& problem, const Call& call, const DeviceLimits&) const override {
    return moe_experts_reference_plan(which, MoeExpertsShape(problem), call);
  }

  // Weights of the experts that the routing is expected to choose; what lies between the launches stays in L2, or need
  // not be there.
  Cost cost(const Problem& problem) const override {
    const MoeExpertsShape shape(problem);
    const auto hidden = static_cast<double>(shape.hidden);
    const auto slots = static_cast<double>(std::min(shape.slots(), shape.experts() * shape.sizes.slots_of_expert()));
    const double matrices =
        ((shape.has_up() ? 2 : 0) + (shape.has_down() ? 1 : 0)) * hidden * static_cast<double>(shape.intermediate);
    // With their scales.
    const double row_bytes = shape.narrow() ? 1 + 4.0 / kExpertsScaleGroup : 2;
    const double weight_bytes =
        shape.narrow() ? 1 + 4.0 / (kExpertsScaleGroup * kExpertsScaleGroup)
        : shape.packed ? static_cast<double>(kPackedValueBytes + kPackedScaleBytes) / (kPackedRows * kPackedDepth)
                       : 2;
    const auto values = [&](bool places, std::int64_t width) {
      return (places ? slots : static_cast<double>(shape.tokens)) * static_cast<double>(width);
    };
    const int list_bytes = (shape.x_places ? 0 : 4) + (shape.out_places ? 0 : 8);
    Cost cost{.read_bytes = row_bytes * values(shape.x_places, shape.x_width()) +
                            weight_bytes * expected_experts(shape.sizes, shape.skew) * matrices +
                            list_bytes * static_cast<double>(shape.slots()),
              .written_bytes = 2 * values(shape.out_places, shape.out_width())};
    (shape.narrow()               ? cost.flops.e4m3
     : shape.dtype == DType::bf16 ? cost.flops.bf16
                                  : cost.flops.fp16) = 2 * slots * matrices;
    return cost;
  }

 private:
  static void add_weights(const MoeExpertsShape& shape, const Call& call, std::vector<Buffer>& buffers) {
    const auto& of = call.integers;
    const auto add = [&](const char* name, const MoeExpertsShape::Matrix& matrix, std::size_t row, std::int64_t depth) {
      buffers.push_back(
          shape.packed ? packed_weights(name, shape.packed_values(matrix.rows, matrix.columns))
                       : expert_weights(name, shape.operand,
                                        {shape.experts(), matrix.rows, matrix.columns, of[row], of[row + 1]}, depth));
    };
    if (shape.has_up()) add("w_gate_up", shape.gate_up(), kExpertsUpRow, shape.hidden);
    if (shape.has_down()) add("w_down", shape.down(), kExpertsDownRow, shape.intermediate);
  }

  static void add_scales(const MoeExpertsShape& shape, const Call& call, std::vector<Buffer>& buffers) {
    const std::int64_t up = 2 * shape.intermediate, hidden = shape.hidden, down = shape.intermediate;
    const auto mean = [](std::int64_t terms) { return 1 / std::sqrt(static_cast<float>(terms)); };
    if (shape.narrow()) {
      buffers.push_back(expert_scales("x_scale", shape.x_rows(call.integers[kMoePlaces]) * shape.x_scales(), 1));
      buffers.back().fresh = true;
      if (shape.has_up()) buffers.push_back(expert_scales("gate_up_scale", shape.gate_up_scales(), mean(hidden)));
      if (shape.has_down()) buffers.push_back(expert_scales("down_scale", shape.down_scales(), mean(down)));
    }
    if (shape.packed && shape.has_up())
      buffers.push_back(packed_scales("gate_up_scale", shape.packed_scales(up, hidden), hidden));
    if (shape.packed && shape.has_down())
      buffers.push_back(packed_scales("down_scale", shape.packed_scales(hidden, down), down));
  }
};

}  // namespace

const Kernel& moe_experts() {
  static const MoeExperts kernel;
  return kernel;
}

}  // namespace moetune
