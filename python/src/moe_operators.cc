#include "operators.h"
#include "tokens_operator.h"

namespace moetune::python {
namespace {

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
    require_type(x, "x", kBf16);
    require_side_by_side(x, "x");
    require(given, {MOETUNE_MOE_DISPATCH_SORTED, "sorted", kI32, 1, {sorted.shape[0]}});
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
    const std::array<int64_t, 4> slots{inverse.shape[0], inverse.shape[1]};
    require(given, {MOETUNE_MOE_COMBINE_ROWS, "rows", kBf16, 2, {rows.shape[0], rows.shape[1]}});
    require(given, {MOETUNE_MOE_COMBINE_INVERSE, "inverse", kI32, 2, slots});
    require(given, {MOETUNE_MOE_COMBINE_WEIGHTS, "weights", kF32, 2, slots});
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
    made.add({MOETUNE_MOE_COMBINE_OUT, "out", kBf16, 2, {tokens, key.as<CombineFacts>().hidden}, true});
    return made;
  }
};

struct ExpertsFacts {
  int64_t hidden, intermediate, experts, top_k, is_fp16, is_narrow;
};

class ExpertsOperator final : public TokensOperator {
 public:
  const char* name() const override { return "moe_experts"; }
  const char* kernel() const override { return "moe_experts"; }
  size_t tensor_count() const override { return MOETUNE_MOE_EXPERTS_DOWN_SCALE + 1; }
  int tokens_slot() const override { return MOETUNE_MOE_EXPERTS_X; }

  FamilyKey key(const Given& given) const override {
    const DLTensor& x = matrix(given, MOETUNE_MOE_EXPERTS_X, "x", "[tokens, hidden]");
    const DLTensor& inverse = matrix(given, MOETUNE_MOE_EXPERTS_INVERSE, "inverse", "[tokens, top_k]");
    const DLTensor& sorted = tensor(given, MOETUNE_MOE_EXPERTS_SORTED, "sorted");
    const DLTensor& down = tensor(given, MOETUNE_MOE_EXPERTS_W_DOWN, "w_down");
    if (sorted.ndim != 1)
      refuse("'sorted' has " + std::to_string(sorted.ndim) + " dimensions; it must be [places]");
    if (down.ndim != 3)
      refuse("'w_down' has " + std::to_string(down.ndim) +
             " dimensions; it must be [experts, hidden, intermediate]");
    const DLDataType type = x.dtype;
    const bool is_narrow = number_of(type) == number_of(kE4m3), is_fp16 = number_of(type) == number_of(kF16);
    if (!is_narrow && !is_fp16 && number_of(type) != number_of(kBf16))
      refuse("'x' is " + type_text(type) + "; it must be bf16, fp16 or e4m3");
    require_side_by_side(x, "x");
    const int64_t tokens = x.shape[0], hidden = x.shape[1], experts = down.shape[0], top_k = inverse.shape[1],
                  intermediate = down.shape[2];
    require(given, {MOETUNE_MOE_EXPERTS_SORTED, "sorted", kI32, 1, {sorted.shape[0]}});
    require(given, {MOETUNE_MOE_EXPERTS_OFFSETS, "offsets", kI32, 1, {experts + 1}});
    require(given, {MOETUNE_MOE_EXPERTS_INVERSE, "inverse", kI32, 2, {tokens, top_k}});
    require(given, {MOETUNE_MOE_EXPERTS_WEIGHTS, "weights", kF32, 2, {tokens, top_k}});
    require(given,
            {MOETUNE_MOE_EXPERTS_W_GATE_UP, "w_gate_up", type, 3, {experts, 2 * intermediate, hidden}, true});
    require(given, {MOETUNE_MOE_EXPERTS_W_DOWN, "w_down", type, 3, {experts, hidden, intermediate}, true});
    require_scales(given, is_narrow, tokens, hidden, intermediate, experts);
    FamilyKey key{.of = this, .device = x.device.device_id};
    key.set(ExpertsFacts{.hidden = hidden,
                         .intermediate = intermediate,
                         .experts = experts,
                         .top_k = top_k,
                         .is_fp16 = is_fp16,
                         .is_narrow = is_narrow});
    check_outputs(given, key);
    return key;
  }

  std::string specialization(const FamilyKey& key) const override {
    const auto facts = key.as<ExpertsFacts>();
    return "hidden=" + std::to_string(facts.hidden) + pair("experts", facts.experts) +
           pair("top_k", facts.top_k) + pair("intermediate", facts.intermediate) +
           ",dtype=" + (facts.is_fp16 != 0 ? "fp16" : "bf16") + (facts.is_narrow != 0 ? ",w=e4m3" : "");
  }

  TensorShapes outputs(const Given& given, const FamilyKey& key) const override {
    const auto facts = key.as<ExpertsFacts>();
    TensorShapes made;
    made.add({MOETUNE_MOE_EXPERTS_OUT,
              "out",
              facts.is_fp16 != 0 ? kF16 : kBf16,
              2,
              {given.tensors[MOETUNE_MOE_EXPERTS_X]->shape[0], facts.hidden},
              true});
    return made;
  }

 private:
  // e4m3 has a scale for 128 values of a row of x and for 128 by 128 weights; the other types have none.
  void require_scales(const Given& given, bool is_narrow, int64_t tokens, int64_t hidden,
                      int64_t intermediate, int64_t experts) const {
    constexpr int64_t kGroup = 128;
    const std::pair<int, const char*> scales[] = {{MOETUNE_MOE_EXPERTS_X_SCALE, "x_scale"},
                                                  {MOETUNE_MOE_EXPERTS_GATE_UP_SCALE, "gate_up_scale"},
                                                  {MOETUNE_MOE_EXPERTS_DOWN_SCALE, "down_scale"}};
    for (const auto& [slot, name] : scales) {
      if (!is_narrow && given.tensors[slot] != nullptr)
        refuse("'" + std::string(name) + "' belongs to an 'x' of e4m3");
    }
    if (!is_narrow) return;
    if (hidden % kGroup != 0 || intermediate % kGroup != 0)
      refuse("hidden " + std::to_string(hidden) + " and intermediate " + std::to_string(intermediate) +
             " must be multiples of 128, the values that share a scale");
    const int64_t groups = hidden / kGroup, inner = intermediate / kGroup;
    require(given, {MOETUNE_MOE_EXPERTS_X_SCALE, "x_scale", kF32, 2, {tokens, groups}});
    require(given,
            {MOETUNE_MOE_EXPERTS_GATE_UP_SCALE, "gate_up_scale", kF32, 3, {experts, 2 * inner, groups}});
    require(given, {MOETUNE_MOE_EXPERTS_DOWN_SCALE, "down_scale", kF32, 3, {experts, groups, inner}});
  }
};

}  // namespace

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

const Operator& experts_operator() {
  static const ExpertsOperator made;
  return made;
}

}  // namespace moetune::python
