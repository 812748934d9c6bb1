#include "kernels/moe/route_plan_family.h"

#include "kernels/moe/tokens_family.h"

namespace moetune {
namespace {

// The order is part of the C interface (include/moetune_kernels.h).
enum RoutePlanSlot {
  kPlanIds,
  kPlanExpertMap,
  kPlanTokenCount,
  kPlanCounts,
  kPlanOffsets,
  kPlanSorted,
  kPlanInverse,
  kPlanBlockExperts,
  kPlanRowExperts,
  kPlanEnds,
  kPlanDropped
};

std::vector<TensorSlot> route_plan_slots(const RoutePlanShape& shape) {
  using enum RouterShape::Layout;
  const auto has = [&](RouterShape::Layout layout) { return shape.layout == layout; };
  return {{"ids", shape.ids, Role::input, true, dtype_bytes(shape.ids)},
          {"expert_map", DType::i32, Role::input, shape.mapped, 4},
          {"token_count", DType::i32, Role::input, shape.counted, 4},
          {"counts", DType::i32, Role::output, true, 4},
          {"offsets", DType::i32, Role::output, shape.segment == 0, 4},
          {"sorted", DType::i32, Role::output, true, 4},
          {"inverse", DType::i32, Role::output, true, 4},
          {"block_experts", DType::i32, Role::output, has(blocks), 4},
          {"row_experts", DType::i32, Role::output, has(rows), 4},
          {"ends", DType::i32, Role::output, has(ends), 4},
          {"dropped", DType::u8, Role::output, shape.dropped, 1}};
}

class RoutePlanFamily final : public TokensFamily {
 public:
  explicit RoutePlanFamily(const RoutePlanShape& shape)
      : TokensFamily("route_plan", route_plan_slots(shape)), shape_(shape) {}

  void check_call(const Extents&, const Call& call) const override { check_route_plan_call(shape_, call); }

  void bind(std::span<const TensorView* const> tensors, std::string_view options, Extents& extents,
            Call& call) const override {
    if (!options.empty()) refuse("unknown option '" + std::string(options) + "'; there are none");
    const TensorView& ids = matrix(tensors, kPlanIds, "tokens", shape_.top_k);
    check({ids.shape[0]});
    const RoutePlanShape shape = shape_.at({ids.shape[0]});
    Call made;
    if (shape.mapped) {
      const TensorView& map = require_tensor(this->tensors(), tensors, kPlanExpertMap);
      if (map.shape.size() != 1) refuse("tensor 'expert_map' must have one dimension");
      made.integers[kMapSize] = map.shape[0];
    }
    require(tensors, kPlanIds, shape.slots());
    require(tensors, kPlanExpertMap, made.integers[kMapSize]);
    require(tensors, kPlanTokenCount, 1);
    require(tensors, kPlanCounts, shape.experts);
    require(tensors, kPlanOffsets, shape.experts + 1);
    require(tensors, kPlanSorted, shape.places());
    require(tensors, kPlanInverse, shape.slots());
    require(tensors, kPlanBlockExperts, shape.places() / shape.align);
    require(tensors, kPlanRowExperts, shape.places());
    require(tensors, kPlanEnds, shape.experts);
    require(tensors, kPlanDropped, shape.slots());
    check_route_plan_call(shape, made);
    extents = {shape.tokens};
    call = made;
  }

 private:
  RoutePlanShape shape_;
};

}  // namespace

std::unique_ptr<const FamilyInterface> route_plan_family(const RoutePlanShape& shape) {
  return std::make_unique<RoutePlanFamily>(shape);
}

}  // namespace moetune
