#include "moe_operators.h"

#include <algorithm>
#include <cmath>

namespace moetune::python {
namespace {

constexpr DLDataType kI32{kDLInt, 32, 1}, kF32{kDLFloat, 32, 1}, kF16{kDLFloat, 16, 1},
    kBf16{kDLBfloat, 16, 1}, kE4m3{kDLFloat8_e4m3fn, 8, 1};

std::string pair(const char* name, int64_t value) {
  return std::string(",") + name + "=" + std::to_string(value);
}

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Operators whose one free dimension is the number of tokens.
class TokensOperator : public Operator {
 public:
  std::string problem(const Given& given, const FamilyKey& key) const override {
    return "tokens=" + std::to_string(extents(given).values[0]) + "," + specialization(key);
  }
  FreeExtents extents(const Given& given) const override {
    return {{given.tensors[tokens_slot()]->shape[0]}, 1};
  }
  bool is_idle(const Given& given) const override { return extents(given).values[0] == 0; }

 protected:
  virtual int tokens_slot() const = 0;  // of a tensor whose rows are tokens

  const DLTensor& matrix(const Given& given, int slot, const char* name, const char* shape) const {
    const DLTensor& found = tensor(given, slot, name);
    if (found.ndim == 2) return found;
    refuse(std::string("'") + name + "' has " + std::to_string(found.ndim) + " dimensions; it must be " +
           shape);
  }
  // Throws if an output of the caller's has another shape.
  void check_outputs(const Given& given, const FamilyKey& key) const {
    for (const TensorShape& output : outputs(given, key)) {
      if (given.tensors[output.slot] != nullptr) require(given, output);
    }
  }
};

constexpr int64_t kTopkSoftmax = 1;  // of kScores: its weights always add up to 1

struct RouteFacts {
  int64_t experts, top_k, score, bias, groups, groups_kept, renormalize, dtype, align, capacity, mapped,
      counted;
};

class RouteOperator final : public TokensOperator {
 public:
  explicit RouteOperator(bool plan) : plan_(plan) {}

  const char* name() const override { return plan_ ? "route" : "route_weights"; }
  const char* kernel() const override { return "router"; }
  size_t tensor_count() const override { return MOETUNE_ROUTER_TOKEN_COUNT + 1; }
  int tokens_slot() const override { return MOETUNE_ROUTER_LOGITS; }

  FamilyKey key(const Given& given) const override {
    const DLTensor& logits = matrix(given, MOETUNE_ROUTER_LOGITS, "logits", "[tokens, experts]");
    const int64_t experts = logits.shape[1];
    type_name(number_of(logits.dtype));
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
                       .counted = has(MOETUNE_ROUTER_TOKEN_COUNT)});
    for (const TensorShape& input : {TensorShape{MOETUNE_ROUTER_BIAS, "bias", kF32, 1, {experts}},
                                     TensorShape{MOETUNE_ROUTER_EXPERT_MAP, "expert_map", kI32, 1, {experts}},
                                     TensorShape{MOETUNE_ROUTER_TOKEN_COUNT, "token_count", kI32, 1, {1}}}) {
      if (given.tensors[input.slot] != nullptr) require(given, input);
    }
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
    if (!plan_) text += ",outputs=weights";
    if (plan_ && facts.align != 16) text += pair("align", facts.align);
    if (plan_ && facts.capacity != 0) text += pair("capacity", facts.capacity);
    if (facts.mapped != 0) text += ",map=local";
    if (facts.counted != 0) text += ",count=device";
    return text;
  }

  TensorShapes outputs(const Given& given, const FamilyKey& key) const override {
    const auto facts = key.as<RouteFacts>();
    const int64_t tokens = given.tensors[MOETUNE_ROUTER_LOGITS]->shape[0], slots = tokens * facts.top_k;
    TensorShapes made;
    made.add({MOETUNE_ROUTER_IDS, "ids", kI32, 2, {tokens, facts.top_k}});
    made.add({MOETUNE_ROUTER_WEIGHTS, "weights", kF32, 2, {tokens, facts.top_k}});
    if (!plan_) return made;
    const int64_t places = round_up(slots + std::min(facts.experts, slots) * (facts.align - 1), facts.align);
    made.add({MOETUNE_ROUTER_COUNTS, "counts", kI32, 1, {facts.experts}});
    made.add({MOETUNE_ROUTER_OFFSETS, "offsets", kI32, 1, {facts.experts + 1}});
    made.add({MOETUNE_ROUTER_SORTED, "sorted", kI32, 1, {places}});
    made.add({MOETUNE_ROUTER_INVERSE, "inverse", kI32, 2, {tokens, facts.top_k}});
    made.add({MOETUNE_ROUTER_BLOCK_EXPERTS, "block_experts", kI32, 1, {places / facts.align}});
    return made;
  }

  void complete(const Given& given, moetune_arguments& arguments) const override {
    arguments.reals[MOETUNE_ROUTER_SCALE] = given.scale;
  }

 private:
  void check_options(const Given& given, int64_t experts) const {
    const int64_t top_k = given.integers[kTopK], align = given.integers[kAlign];
    if (top_k < 1 || top_k > experts)
      refuse("top_k is " + std::to_string(top_k) + "; it must be from 1 to the " + std::to_string(experts) +
             " experts");
    if (plan_ && (align < 1 || align > 256 || (align & (align - 1)) != 0))
      refuse("align is " + std::to_string(align) + "; it must be a power of two, at most 256");
    if (!(given.scale > 0) || std::isinf(given.scale))
      refuse("scale is " + std::to_string(given.scale) + "; it must be a positive number");
  }

  // Throws for a type that no family takes.
  const char* type_name(int64_t type) const {
    if (type == number_of(kF32)) return "fp32";
    if (type == number_of(kBf16)) return "bf16";
    if (type == number_of(kF16)) return "fp16";
    refuse("logits must be fp32, bf16 or fp16");
  }

  const bool plan_;
};

struct DispatchFacts {
  int64_t hidden, top_k, scale_of, scale_layout, padding;
};

class DispatchOperator final : public TokensOperator {
 public:
  explicit DispatchOperator(bool narrow) : narrow_(narrow) {}

  const char* name() const override { return narrow_ ? "moe_dispatch_e4m3" : "moe_dispatch"; }
  const char* kernel() const override { return "moe_dispatch"; }
  size_t tensor_count() const override { return MOETUNE_MOE_DISPATCH_SCALES + 1; }
  int tokens_slot() const override { return MOETUNE_MOE_DISPATCH_X; }

  FamilyKey key(const Given& given) const override {
    const DLTensor& x = matrix(given, MOETUNE_MOE_DISPATCH_X, "x", "[tokens, hidden]");
    const DLTensor& inverse = matrix(given, MOETUNE_MOE_DISPATCH_INVERSE, "inverse", "[tokens, top_k]");
    const DLTensor& sorted = tensor(given, MOETUNE_MOE_DISPATCH_SORTED, "sorted");
    if (sorted.ndim != 1)
      refuse("'sorted' has " + std::to_string(sorted.ndim) + " dimensions; it must be [places]");
    require(given, {MOETUNE_MOE_DISPATCH_INVERSE, "inverse", kI32, 2, {x.shape[0], inverse.shape[1]}});
    FamilyKey key{.of = this, .device = x.device.device_id};
    key.set(DispatchFacts{.hidden = x.shape[1],
                          .top_k = inverse.shape[1],
                          .scale_of = given.integers[kScaleOf],
                          .scale_layout = given.integers[kScaleLayout],
                          .padding = given.integers[kPadding]});
    check_outputs(given, key);
    return key;
  }

  std::string specialization(const FamilyKey& key) const override {
    const auto facts = key.as<DispatchFacts>();
    std::string text = "hidden=" + std::to_string(facts.hidden) + pair("top_k", facts.top_k);
    if (narrow_)
      text += std::string(",out=e4m3,scale=") + kScalesOf[facts.scale_of] +
              ",scale_layout=" + kScaleLayouts[facts.scale_layout];
    if (facts.padding != 0) text += std::string(",padding=") + kPaddings[facts.padding];
    return text;
  }

  TensorShapes outputs(const Given& given, const FamilyKey& key) const override {
    const auto facts = key.as<DispatchFacts>();
    const int64_t places = given.tensors[MOETUNE_MOE_DISPATCH_SORTED]->shape[0];
    TensorShapes made;
    made.add({MOETUNE_MOE_DISPATCH_ROWS, "rows", narrow_ ? kE4m3 : kBf16, 2, {places, facts.hidden}});
    if (!narrow_) return made;
    const int64_t groups = facts.scale_of == 0 ? (facts.hidden + 127) / 128 : 1;
    if (facts.scale_layout == 0)
      made.add({MOETUNE_MOE_DISPATCH_SCALES, "scales", kF32, 2, {places, groups}});
    else
      made.add({MOETUNE_MOE_DISPATCH_SCALES, "scales", kF32, 2, {groups, round_up(places, 4)}});
    return made;
  }

  bool is_idle(const Given& given) const override {
    return TokensOperator::is_idle(given) && given.tensors[MOETUNE_MOE_DISPATCH_SORTED]->shape[0] == 0;
  }

 private:
  const bool narrow_;
};

struct CombineFacts {
  int64_t hidden, top_k;
};

class CombineOperator final : public TokensOperator {
 public:
  const char* name() const override { return "moe_combine"; }
  const char* kernel() const override { return "moe_combine"; }
  size_t tensor_count() const override { return MOETUNE_MOE_COMBINE_OUT + 1; }
  int tokens_slot() const override { return MOETUNE_MOE_COMBINE_INVERSE; }

  FamilyKey key(const Given& given) const override {
    const DLTensor& rows = matrix(given, MOETUNE_MOE_COMBINE_ROWS, "rows", "[places, hidden]");
    const DLTensor& inverse = matrix(given, MOETUNE_MOE_COMBINE_INVERSE, "inverse", "[tokens, top_k]");
    require(given, {MOETUNE_MOE_COMBINE_WEIGHTS, "weights", kF32, 2, {inverse.shape[0], inverse.shape[1]}});
    FamilyKey key{.of = this, .device = rows.device.device_id};
    key.set(CombineFacts{.hidden = rows.shape[1], .top_k = inverse.shape[1]});
    check_outputs(given, key);
    return key;
  }

  std::string specialization(const FamilyKey& key) const override {
    const auto facts = key.as<CombineFacts>();
    return "hidden=" + std::to_string(facts.hidden) + pair("top_k", facts.top_k);
  }

  TensorShapes outputs(const Given& given, const FamilyKey& key) const override {
    const int64_t tokens = given.tensors[MOETUNE_MOE_COMBINE_INVERSE]->shape[0];
    TensorShapes made;
    made.add({MOETUNE_MOE_COMBINE_OUT, "out", kBf16, 2, {tokens, key.as<CombineFacts>().hidden}});
    return made;
  }
};

}  // namespace

const Operator& route_operator() {
  static const RouteOperator made(true);
  return made;
}

const Operator& route_weights_operator() {
  static const RouteOperator made(false);
  return made;
}

const Operator& dispatch_operator() {
  static const DispatchOperator made(false);
  return made;
}

const Operator& dispatch_e4m3_operator() {
  static const DispatchOperator made(true);
  return made;
}

const Operator& combine_operator() {
  static const CombineOperator made;
  return made;
}

}  // namespace moetune::python
