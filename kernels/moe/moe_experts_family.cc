#include "kernels/moe/moe_experts_family.h"

#include "base/integers.h"
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

}  // namespace

std::unique_ptr<const FamilyInterface> moe_experts_family(const MoeExpertsShape& shape) {
  return std::make_unique<MoeExpertsFamily>(shape);
}

}  // namespace moetune
