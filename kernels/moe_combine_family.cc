#include "kernels/moe_combine_family.h"

#include <array>

#include "base/error.h"
#include "kernels/moe_combine_plan.h"

namespace moetune {
namespace {

// The order is part of the C interface (include/moetune.h).
enum CombineSlot { kCombineRows, kCombineInverse, kCombineWeights, kCombineOut, kCombineSlots };

[[noreturn]] void refuse_combine(const std::string& rule) { throw BadInput("moe_combine: " + rule); }

class MoeCombineFamily final : public FamilyInterface {
 public:
  explicit MoeCombineFamily(const MoeShape& shape) : shape_(shape) {
    slots_[kCombineRows] = {"rows", DType::bf16, Role::input, true, 16};
    slots_[kCombineInverse] = {"inverse", DType::i32, Role::input, true, 4};
    slots_[kCombineWeights] = {"weights", DType::f32, Role::input, true, 4};
    slots_[kCombineOut] = {"out", DType::bf16, Role::output, true, 16};
  }

  std::span<const TensorSlot> tensors() const override { return slots_; }
  void check(const Extents& extents) const override { check_moe_extents("moe_combine", extents); }
  void check_call(const Extents&, const Call& call) const override { check_moe_combine_call(shape_, call); }

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
    if (!options.empty()) refuse_combine("unknown option '" + std::string(options) + "'; there are none");
    const auto rows_of = [&](CombineSlot slot, const char* rows) -> const TensorView& {
      const TensorView& tensor = require_tensor(slots_, tensors, slot);
      if (tensor.shape.size() == 2 && tensor.shape[1] == shape_.hidden && tensor.strides[1] == 1)
        return tensor;
      refuse_combine("tensor '" + std::string(slots_[slot].name.view()) + "' must be [" + rows + ", " +
                     std::to_string(shape_.hidden) + "], the values of a row side by side");
    };
    const TensorView& out = rows_of(kCombineOut, "tokens");
    const TensorView& rows = rows_of(kCombineRows, "places");
    extents = {out.shape[0]};
    check(extents);
    call = Call{};
    call.integers[kCombineRow] = out.shape[0] > 1 ? out.strides[0] : shape_.hidden;
    call.integers[kCombinePlaces] = rows.shape[0];
    check_moe_combine_call(shape_, call);
    const auto require = [&](CombineSlot slot, std::int64_t elements) {
      require_contiguous(slots_[slot], require_tensor(slots_, tensors, slot), elements);
    };
    require(kCombineRows, rows.shape[0] * shape_.hidden);
    require(kCombineInverse, out.shape[0] * shape_.top_k);
    require(kCombineWeights, out.shape[0] * shape_.top_k);
  }

 private:
  MoeShape shape_;
  std::array<TensorSlot, kCombineSlots> slots_;
};

}  // namespace

std::unique_ptr<const FamilyInterface> moe_combine_family(const MoeShape& shape) {
  return std::make_unique<MoeCombineFamily>(shape);
}

}  // namespace moetune
