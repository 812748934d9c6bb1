#include <algorithm>
#include <cmath>

#include "operators.h"
#include "tokens_operator.h"

namespace moetune::python {
namespace {

constexpr int64_t kTopkSoftmax = 1;  // of kScores: its weights always add up to 1

struct RouteFacts {
  int64_t experts, top_k, score, bias, groups, groups_kept, renormalize, dtype, align, capacity, mapped, counted,
      segment, ranks, ids_type, dropped;
};

class RouteOperator final : public TokensOperator {
 public:
  RouteOperator(const char* name, Routed routed) : name_(name), routed_(routed) {}

  const char* name() const override { return name_; }
  const char* kernel() const override { return "router"; }
  int tokens_slot() const override { return MOETUNE_ROUTER_LOGITS; }

  FamilyKey key(const Given& given) const override {
    const DLTensor& logits = matrix(given, MOETUNE_ROUTER_LOGITS, "logits", "[tokens, experts]");
    const int64_t experts = logits.shape[1];
    type_name(number_of(logits.dtype));
    require_side_by_side(logits, "logits");
    check_options(given, experts);
    const auto has = [&](int slot) { return int64_t{given.tensors[slot] != nullptr}; };
    const auto& integers = given.integers;
    FamilyKey key{.of = this, .device = logits.device.device_id};
    key.set(RouteFacts{.experts = experts,
                       .top_k = integers[kTopK],
                       .score = integers[kScore],
                       .bias = has(MOETUNE_ROUTER_BIAS),
                       .groups = integers[kGroups],
                       .groups_kept = integers[kGroupsKept],
                       .renormalize = integers[kRenormalize] | int64_t{integers[kScore] == kTopkSoftmax},
                       .dtype = number_of(logits.dtype),
                       .align = integers[kAlign],
                       .capacity = integers[kCapacity],
                       .mapped = has(MOETUNE_ROUTER_EXPERT_MAP),
                       .counted = has(MOETUNE_ROUTER_TOKEN_COUNT),
                       .segment = integers[kSegment],
                       .ranks = integers[kRanks],
                       .ids_type = integers[kIdsType],
                       .dropped = has(MOETUNE_ROUTER_DROPPED)});
    for (const TensorShape& input :
         {TensorShape{MOETUNE_ROUTER_BIAS, "bias", kF32, 1, {experts}},
          TensorShape{MOETUNE_ROUTER_EXPERT_MAP, "expert_map", kI32, 1, {experts}},
          TensorShape{MOETUNE_ROUTER_TOKEN_COUNT, "token_count", kI32, 1, {1}},
          TensorShape{MOETUNE_ROUTER_DROPPED, "dropped", kBool, 2, {logits.shape[0], integers[kTopK]}}})
      require_if_given(given, input);
    check_outputs(given, key);
    return key;
  }

  std::string specialization(const FamilyKey& key) const override {
    const auto facts = key.as<RouteFacts>();
    std::string text = "experts=" + std::to_string(facts.experts) + pair("top_k", facts.top_k) +
                       ",score=" + kScores[facts.score] + ",dtype=" + type_name(facts.dtype);
    if (facts.bias != 0) text += ",bias=correction";
    if (facts.groups != 1) text += pair("groups", facts.groups);
    if (facts.groups_kept != 1) text += pair("groups_kept", facts.groups_kept);
    if (facts.renormalize == 0) text += ",renormalize=no";
    text += kChosen[static_cast<size_t>(routed_)];
    if (routed_ == Routed::ranks) text += pair("ranks", facts.ranks);
    if (routed_ == Routed::masked) text += pair("segment", facts.segment);
    if (facts.ids_type != 0) text += std::string(",ids=") + kIdsTypes[facts.ids_type];
    if (is_padded() && facts.align != 16) text += pair("align", facts.align);
    if (has_plan() && facts.capacity != 0) text += pair("capacity", facts.capacity);
    if (facts.dropped != 0) text += ",dropped=mask";
    if (facts.mapped != 0) text += ",map=local";
    if (facts.counted != 0) text += ",count=device";
    return text;
  }

  TensorShapes outputs(const Given& given, const FamilyKey& key) const override {
    const auto facts = key.as<RouteFacts>();
    const int64_t tokens = given.tensors[MOETUNE_ROUTER_LOGITS]->shape[0], experts = facts.experts;
    TensorShapes made;
    made.add({MOETUNE_ROUTER_IDS, "ids", facts.ids_type == 0 ? kI32 : kI64, 2, {tokens, facts.top_k}});
    made.add({MOETUNE_ROUTER_WEIGHTS, "weights", kF32, 2, {tokens, facts.top_k}});
    if (routed_ == Routed::weights) return made;
    made.add({MOETUNE_ROUTER_COUNTS, "counts", kI32, 1, {experts}});
    if (routed_ == Routed::ranks) {
      made.add({MOETUNE_ROUTER_TOKENS_PER_RANK, "tokens_per_rank", kI32, 1, {facts.ranks}});
      made.add({MOETUNE_ROUTER_IN_RANK, "in_rank", kBool, 2, {tokens, facts.ranks}});
      return made;
    }
    const int64_t places = places_of(facts, tokens * facts.top_k);
    if (is_padded()) made.add({MOETUNE_ROUTER_OFFSETS, "offsets", kI32, 1, {experts + 1}});
    made.add({MOETUNE_ROUTER_SORTED, "sorted", kI32, 1, {places}});
    made.add({MOETUNE_ROUTER_INVERSE, "inverse", kI32, 2, {tokens, facts.top_k}});
    if (routed_ == Routed::blocks)
      made.add({MOETUNE_ROUTER_BLOCK_EXPERTS, "block_experts", kI32, 1, {places / facts.align}});
    if (routed_ == Routed::rows) made.add({MOETUNE_ROUTER_ROW_EXPERTS, "row_experts", kI32, 1, {places}});
    if (routed_ == Routed::ends) made.add({MOETUNE_ROUTER_ENDS, "ends", kI32, 1, {experts}});
    return made;
  }

  void complete(const Given& given, moetune_arguments& arguments) const override {
    arguments.reals[MOETUNE_ROUTER_SCALE] = given.scale;
  }

 private:
  static constexpr const char* kChosen[] = {",outputs=weights", "", ",layout=rows", ",layout=ends", ",layout=masked",
                                            ",outputs=ranks"};

  bool has_plan() const { return routed_ != Routed::weights && routed_ != Routed::ranks; }
  // Whether segments are as long as they need, padded to a multiple of `align`.
  bool is_padded() const { return has_plan() && routed_ != Routed::masked; }

  int64_t places_of(const RouteFacts& facts, int64_t slots) const {
    if (!is_padded()) return facts.experts * facts.segment;
    return round_up(slots + std::min(facts.experts, slots) * (facts.align - 1), facts.align);
  }

  void check_options(const Given& given, int64_t experts) const {
    const int64_t top_k = given.integers[kTopK], align = given.integers[kAlign];
    if (top_k < 1 || top_k > experts)
      refuse("top_k is " + std::to_string(top_k) + "; it must be from 1 to the " + std::to_string(experts) +
             " experts");
    if (is_padded() && (align < 1 || align > 256 || (align & (align - 1)) != 0))
      refuse("align is " + std::to_string(align) + "; it must be a power of two, at most 256");
    if (const int64_t segment = given.integers[kSegment]; routed_ == Routed::masked && (segment < 1 || segment > 65536))
      refuse("segment is " + std::to_string(segment) + "; it must be from 1 to 65536");
    if (const int64_t ranks = given.integers[kRanks];
        routed_ == Routed::ranks && (ranks < 1 || ranks > experts || experts % ranks != 0))
      refuse("ranks is " + std::to_string(ranks) + "; it must divide the " + std::to_string(experts) + " experts");
    if (!(given.scale > 0) || std::isinf(given.scale))
      refuse("scale is " + std::to_string(given.scale) + "; it must be a positive number");
    check_groups(given, experts);
    check_capacity(given);
  }

  void check_groups(const Given& given, int64_t experts) const {
    const int64_t groups = given.integers[kGroups], kept = given.integers[kGroupsKept];
    if (groups < 1 || experts % groups != 0)
      refuse("groups is " + std::to_string(groups) + "; it must divide the " + std::to_string(experts) + " experts");
    if (kept < 1 || kept > groups)
      refuse("groups_kept is " + std::to_string(kept) + "; it must be from 1 to the " + std::to_string(groups) +
             " groups");
    if (experts / groups * kept < given.integers[kTopK])
      refuse("top_k is " + std::to_string(given.integers[kTopK]) + "; the groups that are kept have " +
             std::to_string(experts / groups * kept) + " experts");
  }

  void check_capacity(const Given& given) const {
    const int64_t capacity = given.integers[kCapacity];
    require_at_least(0, "capacity", capacity);
    if (capacity > 0 && given.tensors[MOETUNE_ROUTER_TOKEN_COUNT] != nullptr)
      refuse("capacity is a share of the tokens, which are not known on the host with token_count");
    if (capacity == 0 && routed_ != Routed::masked && given.tensors[MOETUNE_ROUTER_DROPPED] != nullptr)
      refuse("'dropped' needs a capacity, without which nothing is dropped");
  }

  // Throws for a type that no family takes.
  const char* type_name(int64_t type) const {
    if (type == number_of(kF32)) return "fp32";
    if (type == number_of(kBf16)) return "bf16";
    if (type == number_of(kF16)) return "fp16";
    refuse("logits must be fp32, bf16 or fp16");
  }

  const char* const name_;
  const Routed routed_;
};

}  // namespace

const Operator& route_operator(Routed routed) {
  static const RouteOperator made[] = {{"route_weights", Routed::weights}, {"route", Routed::blocks},
                                       {"route_rows", Routed::rows},       {"route_ends", Routed::ends},
                                       {"route_masked", Routed::masked},   {"route_ranks", Routed::ranks}};
  return made[static_cast<size_t>(routed)];
}

}  // namespace moetune::python
