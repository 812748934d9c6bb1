#include "kernels/moe/moe_combine_family.h"

#include "kernels/moe/moe_combine_plan.h"
#include "kernels/moe/tokens_family.h"

namespace moetune {
namespace {

// The order is part of the C interface (include/moetune_kernels.h).
enum CombineSlot { kCombineRows, kCombineInverse, kCombineWeights, kCombineOut };

class MoeCombineFamily final : public TokensFamily {
 public:
  explicit MoeCombineFamily(const MoeShape& shape)
      : TokensFamily("moe_combine", {{"rows", DType::bf16, Role::input, true, 16},
                                     {"inverse", DType::i32, Role::input, true, 4},
                                     {"weights", DType::f32, Role::input, true, 4},
                                     {"out", DType::bf16, Role::output, true, 16}}),
        shape_(shape) {}

  void check_call(const Extents&, const Call& call) const override { check_moe_combine_call(shape_, call); }

  void bind(std::span<const TensorView* const> tensors, std::string_view options, Extents& extents,
            Call& call) const override {
    if (!options.empty()) refuse("unknown option '" + std::string(options) + "'; there are none");
    const TensorView& out = matrix(tensors, kCombineOut, "tokens", shape_.hidden);
    const TensorView& rows = matrix(tensors, kCombineRows, "places", shape_.hidden);
    const std::int64_t tokens = out.shape[0], places = rows.shape[0];
    check({tokens});
    Call made;
    made.integers[kMoeRow] = tokens > 1 ? out.strides[0] : shape_.hidden;
    made.integers[kMoePlaces] = places;
    check_moe_combine_call(shape_, made);
    require(tensors, kCombineRows, places * shape_.hidden);
    require(tensors, kCombineInverse, tokens * shape_.top_k);
    require(tensors, kCombineWeights, tokens * shape_.top_k);
    extents = {tokens};
    call = made;
  }

 private:
  MoeShape shape_;
};

}  // namespace

std::unique_ptr<const FamilyInterface> moe_combine_family(const MoeShape& shape) {
  return std::make_unique<MoeCombineFamily>(shape);
}

}  // namespace moetune
