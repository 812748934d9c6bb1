#include "kernels/moe_dispatch_family.h"

#include <array>

#include "base/error.h"

namespace moetune {
namespace {

// The order is part of the C interface (include/moetune.h).
enum DispatchSlot {
  kDispatchX,
  kDispatchSorted,
  kDispatchInverse,
  kDispatchRows,
  kDispatchScales,
  kDispatchSlots
};

[[noreturn]] void refuse_dispatch(const std::string& rule) { throw BadInput("moe_dispatch: " + rule); }

class MoeDispatchFamily final : public FamilyInterface {
 public:
  explicit MoeDispatchFamily(const MoeDispatchShape& shape) : shape_(shape) {
    slots_[kDispatchX] = {"x", DType::bf16, Role::input, true, 16};
    slots_[kDispatchSorted] = {"sorted", DType::i32, Role::input, true, 4};
    slots_[kDispatchInverse] = {"inverse", DType::i32, Role::input, true, 4};
    slots_[kDispatchRows] = {"rows", shape.dtype(), Role::output, true, 16};
    slots_[kDispatchScales] = {"scales", DType::f32, Role::output, shape.narrow(), 4};
  }

  std::span<const TensorSlot> tensors() const override { return slots_; }
  void check(const Extents& extents) const override { check_moe_extents("moe_dispatch", extents); }
  void check_call(const Extents&, const Call& call) const override { check_moe_dispatch_call(shape_, call); }

  TablePoint table_point(const Extents& extents, std::int64_t) const override {
    TablePoint point;
    point.position = {extents[0]};
    return point;
  }
  TablePoint table_point_of(const Problem& problem) const override {
    return table_point({problem["tokens"]}, 0);
  }
  Extents extents_at(const TablePoint& point, const Extents&) const override { return {point.position[0]}; }

  void bind(std::span<const TensorView* const> tensors, std::string_view options, Extents& extents,
            Call& call) const override {
    if (!options.empty()) refuse_dispatch("unknown option '" + std::string(options) + "'; there are none");
    const TensorView& x = require_tensor(slots_, tensors, kDispatchX);
    if (x.shape.size() != 2 || x.shape[1] != shape_.hidden || x.strides[1] != 1)
      refuse_dispatch("tensor 'x' must be [tokens, " + std::to_string(shape_.hidden) +
                      "], a token's values side by side");
    const TensorView& sorted = require_tensor(slots_, tensors, kDispatchSorted);
    if (sorted.shape.size() != 1) refuse_dispatch("tensor 'sorted' must be [places]");
    extents = {x.shape[0]};
    check(extents);
    call = Call{};
    call.integers[kDispatchRow] = x.shape[0] > 1 ? x.strides[0] : shape_.hidden;
    call.integers[kDispatchPlaces] = sorted.shape[0];
    const auto require = [&](DispatchSlot slot, std::int64_t elements) {
      require_contiguous(slots_[slot], require_tensor(slots_, tensors, slot), elements);
    };
    check_moe_dispatch_call(shape_, call);
    require(kDispatchSorted, sorted.shape[0]);
    require(kDispatchInverse, x.shape[0] * shape_.top_k);
    require(kDispatchRows, sorted.shape[0] * shape_.hidden);
    if (shape_.narrow()) require(kDispatchScales, shape_.scale_elements(sorted.shape[0]));
  }

 private:
  MoeDispatchShape shape_;
  std::array<TensorSlot, kDispatchSlots> slots_;
};

}  // namespace

std::unique_ptr<const FamilyInterface> moe_dispatch_family(const MoeDispatchShape& shape) {
  return std::make_unique<MoeDispatchFamily>(shape);
}

}  // namespace moetune
