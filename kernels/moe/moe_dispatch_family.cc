#include "kernels/moe/moe_dispatch_family.h"

#include "kernels/moe/tokens_family.h"

namespace moetune {
namespace {

// The order is part of the C interface (include/moetune_kernels.h).
enum DispatchSlot { kDispatchX, kDispatchSorted, kDispatchInverse, kDispatchRows, kDispatchScales };

class MoeDispatchFamily final : public TokensFamily {
 public:
  explicit MoeDispatchFamily(const MoeDispatchShape& shape)
      : TokensFamily("moe_dispatch", {{"x", DType::bf16, Role::input, true, 16},
                                      {"sorted", DType::i32, Role::input, true, 4},
                                      {"inverse", DType::i32, Role::input, true, 4},
                                      {"rows", shape.dtype(), Role::output, true, 16},
                                      {"scales", DType::f32, Role::output, shape.narrow(), 4}}),
        shape_(shape) {}

  void check_call(const Extents&, const Call& call) const override { check_moe_dispatch_call(shape_, call); }

  void bind(std::span<const TensorView* const> tensors, std::string_view options, Extents& extents,
            Call& call) const override {
    if (!options.empty()) refuse("unknown option '" + std::string(options) + "'; there are none");
    const TensorView& x = matrix(tensors, kDispatchX, "tokens", shape_.hidden);
    const TensorView& sorted = require_tensor(this->tensors(), tensors, kDispatchSorted);
    if (sorted.shape.size() != 1) refuse("tensor 'sorted' must be [places]");
    const std::int64_t tokens = x.shape[0], places = sorted.shape[0];
    check({tokens});
    Call made;
    made.integers[kMoeRow] = tokens > 1 ? x.strides[0] : shape_.hidden;
    made.integers[kMoePlaces] = places;
    check_moe_dispatch_call(shape_, made);
    require(tensors, kDispatchSorted, places);
    require(tensors, kDispatchInverse, tokens * shape_.top_k);
    require(tensors, kDispatchRows, places * shape_.hidden);
    require(tensors, kDispatchScales, shape_.scale_elements(places));
    extents = {tokens};
    call = made;
  }

 private:
  MoeDispatchShape shape_;
};

}  // namespace

std::unique_ptr<const FamilyInterface> moe_dispatch_family(const MoeDispatchShape& shape) {
  return std::make_unique<MoeDispatchFamily>(shape);
}

}  // namespace moetune
