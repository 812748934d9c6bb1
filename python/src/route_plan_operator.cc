#include <algorithm>

#include "operators.h"
#include "tokens_operator.h"

namespace moetune::python {
namespace {

struct RoutePlanFacts {
  int64_t experts, top_k, ids_type, align, segment, mapped, counted, dropped;
};

class RoutePlanOperator final : public TokensOperator {
 public:
  RoutePlanOperator(const char* name, Routed routed) : name_(name), routed_(routed) {}

  const char* name() const override { return name_; }
  const char* kernel() const override { return "route_plan"; }
  int tokens_slot() const override { return MOETUNE_ROUTE_PLAN_IDS; }

  FamilyKey key(const Given& given) const override {
    const DLTensor& ids = matrix(given, MOETUNE_ROUTE_PLAN_IDS, "ids", "[tokens, top_k]");
    const int64_t tokens = ids.shape[0], top_k = ids.shape[1];
    const bool is_wide = number_of(ids.dtype) == number_of(kI64);
    if (!is_wide && number_of(ids.dtype) != number_of(kI32))
      refuse("'ids' is " + type_text(ids.dtype) + "; it must be i32 or i64");
    if (top_k < 1) refuse("'ids' has no experts for its tokens");
    require(given, {MOETUNE_ROUTE_PLAN_IDS, "ids", ids.dtype, 2, {tokens, top_k}});
    check_options(given);
    const auto has = [&](int slot) { return int64_t{given.tensors[slot] != nullptr}; };
    FamilyKey key{.of = this, .device = ids.device.device_id};
    key.set(RoutePlanFacts{.experts = given.integers[kPlanExperts],
                           .top_k = top_k,
                           .ids_type = is_wide,
                           .align = given.integers[kPlanAlign],
                           .segment = given.integers[kPlanSegment],
                           .mapped = has(MOETUNE_ROUTE_PLAN_EXPERT_MAP),
                           .counted = has(MOETUNE_ROUTE_PLAN_TOKEN_COUNT),
                           .dropped = has(MOETUNE_ROUTE_PLAN_DROPPED)});
    check_map(given);
    require_if_given(given, {MOETUNE_ROUTE_PLAN_TOKEN_COUNT, "token_count", kI32, 1, {1}});
    require_if_given(given, {MOETUNE_ROUTE_PLAN_DROPPED, "dropped", kBool, 2, {tokens, top_k}});
    check_outputs(given, key);
    return key;
  }

  std::string specialization(const FamilyKey& key) const override {
    const auto facts = key.as<RoutePlanFacts>();
    std::string text = "experts=" + std::to_string(facts.experts) + pair("top_k", facts.top_k);
    if (facts.ids_type != 0) text += std::string(",ids=") + kIdsTypes[facts.ids_type];
    if (facts.mapped != 0) text += ",map=local";
    if (routed_ == Routed::rows) text += ",layout=rows";
    if (routed_ == Routed::ends) text += ",layout=ends";
    if (is_masked()) text += ",layout=masked" + pair("segment", facts.segment);
    if (!is_masked() && facts.align != 16) text += pair("align", facts.align);
    if (facts.dropped != 0) text += ",dropped=mask";
    if (facts.counted != 0) text += ",count=device";
    return text;
  }

  TensorShapes outputs(const Given& given, const FamilyKey& key) const override {
    const auto facts = key.as<RoutePlanFacts>();
    const int64_t tokens = given.tensors[MOETUNE_ROUTE_PLAN_IDS]->shape[0], experts = facts.experts,
                  slots = tokens * facts.top_k;
    const int64_t places = is_masked() ? experts * facts.segment
                                       : round_up(slots + std::min(experts, slots) * (facts.align - 1), facts.align);
    TensorShapes made;
    made.add({MOETUNE_ROUTE_PLAN_COUNTS, "counts", kI32, 1, {experts}});
    if (!is_masked()) made.add({MOETUNE_ROUTE_PLAN_OFFSETS, "offsets", kI32, 1, {experts + 1}});
    made.add({MOETUNE_ROUTE_PLAN_SORTED, "sorted", kI32, 1, {places}});
    made.add({MOETUNE_ROUTE_PLAN_INVERSE, "inverse", kI32, 2, {tokens, facts.top_k}});
    if (routed_ == Routed::blocks)
      made.add({MOETUNE_ROUTE_PLAN_BLOCK_EXPERTS, "block_experts", kI32, 1, {places / facts.align}});
    if (routed_ == Routed::rows) made.add({MOETUNE_ROUTE_PLAN_ROW_EXPERTS, "row_experts", kI32, 1, {places}});
    if (routed_ == Routed::ends) made.add({MOETUNE_ROUTE_PLAN_ENDS, "ends", kI32, 1, {experts}});
    return made;
  }

 private:
  bool is_masked() const { return routed_ == Routed::masked; }

  void check_options(const Given& given) const {
    if (const int64_t experts = given.integers[kPlanExperts]; experts < 1 || experts > 1024)
      refuse("num_experts is " + std::to_string(experts) + "; it must be from 1 to 1024");
    if (const int64_t align = given.integers[kPlanAlign];
        !is_masked() && (align < 1 || align > 256 || (align & (align - 1)) != 0))
      refuse("align is " + std::to_string(align) + "; it must be a power of two, at most 256");
    if (const int64_t segment = given.integers[kPlanSegment]; is_masked() && (segment < 1 || segment > 65536))
      refuse("segment is " + std::to_string(segment) + "; it must be from 1 to 65536");
  }

  void check_map(const Given& given) const {
    const DLTensor* const map = given.tensors[MOETUNE_ROUTE_PLAN_EXPERT_MAP];
    if (map == nullptr) return;
    if (map->ndim != 1 || map->shape[0] < 1) refuse("'expert_map' must have one dimension, and an entry for each id");
    require(given, {MOETUNE_ROUTE_PLAN_EXPERT_MAP, "expert_map", kI32, 1, {map->shape[0]}});
  }

  const char* const name_;
  const Routed routed_;
};

}  // namespace

const Operator& route_plan_operator(Routed routed) {
  static const RoutePlanOperator blocks("route_plan", Routed::blocks), rows("route_plan_rows", Routed::rows),
      ends("route_plan_ends", Routed::ends), masked("route_plan_masked", Routed::masked);
  return routed == Routed::rows ? rows : routed == Routed::ends ? ends : routed == Routed::masked ? masked : blocks;
}

}  // namespace moetune::python
