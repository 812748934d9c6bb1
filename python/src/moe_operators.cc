#include <tuple>
#include <utility>

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

enum ExpertsWeights { kSame, kNarrow, kPacked };

struct ExpertsFacts {
  int64_t hidden, intermediate, experts, top_k, is_fp16, weights, activation;
};

class ExpertsOperator final : public TokensOperator {
 public:
  const char* name() const override { return "moe_experts"; }
  const char* kernel() const override { return "moe_experts"; }
  size_t tensor_count() const override { return MOETUNE_MOE_EXPERTS_DOWN_BIAS + 1; }
  int tokens_slot() const override { return MOETUNE_MOE_EXPERTS_X; }

  FamilyKey key(const Given& given) const override {
    const DLTensor& x = matrix(given, MOETUNE_MOE_EXPERTS_X, "x", "[tokens, hidden]");
    const DLTensor& inverse = matrix(given, MOETUNE_MOE_EXPERTS_INVERSE, "inverse", "[tokens, top_k]");
    const DLTensor& sorted = tensor(given, MOETUNE_MOE_EXPERTS_SORTED, "sorted");
    if (sorted.ndim != 1)
      refuse("'sorted' has " + std::to_string(sorted.ndim) + " dimensions; it must be [places]");
    const bool is_e4m3 = number_of(x.dtype) == number_of(kE4m3),
               is_fp16 = number_of(x.dtype) == number_of(kF16);
    if (!is_e4m3 && !is_fp16 && number_of(x.dtype) != number_of(kBf16))
      refuse("'x' is " + type_text(x.dtype) + "; it must be bf16, fp16 or e4m3");
    require_side_by_side(x, "x");
    const ExpertsFacts facts = sizes(given, x, is_e4m3, is_fp16, inverse.shape[1]);
    const int64_t tokens = x.shape[0];
    require(given, {MOETUNE_MOE_EXPERTS_SORTED, "sorted", kI32, 1, {sorted.shape[0]}});
    require(given, {MOETUNE_MOE_EXPERTS_OFFSETS, "offsets", kI32, 1, {facts.experts + 1}});
    require(given, {MOETUNE_MOE_EXPERTS_INVERSE, "inverse", kI32, 2, {tokens, facts.top_k}});
    require(given, {MOETUNE_MOE_EXPERTS_WEIGHTS, "weights", kF32, 2, {tokens, facts.top_k}});
    require_weights(given, facts, tokens);
    require_biases(given, facts);
    FamilyKey key{.of = this, .device = x.device.device_id};
    key.set(facts);
    check_outputs(given, key);
    return key;
  }

  std::string specialization(const FamilyKey& key) const override {
    static constexpr const char* kWeights[] = {"", ",w=e4m3", ",w=mxfp4"};
    const auto facts = key.as<ExpertsFacts>();
    return "hidden=" + std::to_string(facts.hidden) + pair("experts", facts.experts) +
           pair("top_k", facts.top_k) + pair("intermediate", facts.intermediate) +
           ",dtype=" + (facts.is_fp16 != 0 ? "fp16" : "bf16") + kWeights[facts.weights] +
           (facts.activation != 0 ? std::string(",activation=") + kActivations[facts.activation] : "");
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
  // Packed weights are bytes: [experts, hidden / 16, blocks of K, 512], and of w_gate_up [experts, intermediate / 8,
  // ...].
  ExpertsFacts sizes(const Given& given, const DLTensor& x, bool is_e4m3, bool is_fp16, int64_t top_k) const {
    const DLTensor& up = tensor(given, MOETUNE_MOE_EXPERTS_W_GATE_UP, "w_gate_up");
    const DLTensor& down = tensor(given, MOETUNE_MOE_EXPERTS_W_DOWN, "w_down");
    const bool is_packed = number_of(down.dtype) == number_of(kU8);
    if (down.ndim != (is_packed ? 4 : 3))
      refuse("'w_down' has " + std::to_string(down.ndim) + " dimensions; it must be [experts, hidden" +
             (is_packed ? " / 16, blocks, 512]" : ", intermediate]"));
    if (is_packed && up.ndim != 4)
      refuse("'w_gate_up' has " + std::to_string(up.ndim) +
             " dimensions; it must be [experts, intermediate / 8, blocks, 512]");
    if (is_packed && (is_e4m3 || is_fp16)) refuse("weights in mxfp4 go with an 'x' of bf16");
    const int64_t activation = given.integers[kActivation];
    if (is_e4m3 && activation != 0) refuse("activation 'swigluoai' is not for e4m3");
    return {.hidden = x.shape[1],
            .intermediate = is_packed ? 8 * up.shape[1] : down.shape[2],
            .experts = down.shape[0],
            .top_k = top_k,
            .is_fp16 = is_fp16,
            .weights = is_packed ? kPacked
                       : is_e4m3 ? kNarrow
                                 : kSame,
            .activation = activation};
  }

  void require_weights(const Given& given, const ExpertsFacts& of, int64_t tokens) const {
    const int64_t group = of.weights == kPacked ? 32 : 128;  // values of K that share a scale
    if (of.weights != kSame && (of.hidden % group != 0 || of.intermediate % group != 0))
      refuse("hidden " + std::to_string(of.hidden) + " and intermediate " + std::to_string(of.intermediate) +
             " must be multiples of " + std::to_string(group) + ", the values that share a scale");
    refuse_if_given(given, of.weights == kNarrow, MOETUNE_MOE_EXPERTS_X_SCALE,
                    "'x_scale' belongs to an 'x' of e4m3");
    for (const auto& [slot, name] : {std::pair{MOETUNE_MOE_EXPERTS_GATE_UP_SCALE, "gate_up_scale"},
                                     {MOETUNE_MOE_EXPERTS_DOWN_SCALE, "down_scale"}})
      refuse_if_given(given, of.weights != kSame, slot,
                      "'" + std::string(name) + "' belongs to weights in e4m3 or mxfp4");
    if (of.weights == kPacked) {
      require_packed(given, {MOETUNE_MOE_EXPERTS_W_GATE_UP, "w_gate_up"},
                     {MOETUNE_MOE_EXPERTS_GATE_UP_SCALE, "gate_up_scale"},
                     {of.experts, of.intermediate / 8, of.hidden});
      require_packed(given, {MOETUNE_MOE_EXPERTS_W_DOWN, "w_down"},
                     {MOETUNE_MOE_EXPERTS_DOWN_SCALE, "down_scale"},
                     {of.experts, of.hidden / 16, of.intermediate});
      return;
    }
    const DLDataType type = of.weights == kNarrow ? kE4m3 : of.is_fp16 != 0 ? kF16 : kBf16;
    require(given, {MOETUNE_MOE_EXPERTS_W_GATE_UP,
                    "w_gate_up",
                    type,
                    3,
                    {of.experts, 2 * of.intermediate, of.hidden},
                    true});
    require(given,
            {MOETUNE_MOE_EXPERTS_W_DOWN, "w_down", type, 3, {of.experts, of.hidden, of.intermediate}, true});
    if (of.weights == kSame) return;
    const int64_t outer = of.hidden / group, inner = of.intermediate / group;
    require(given, {MOETUNE_MOE_EXPERTS_X_SCALE, "x_scale", kF32, 2, {tokens, outer}});
    require(given,
            {MOETUNE_MOE_EXPERTS_GATE_UP_SCALE, "gate_up_scale", kF32, 3, {of.experts, 2 * inner, outer}});
    require(given, {MOETUNE_MOE_EXPERTS_DOWN_SCALE, "down_scale", kF32, 3, {of.experts, outer, inner}});
  }

  struct Named {
    int slot;
    const char* name;
  };
  // A packed matrix of each expert: strips of 16 rows, and so many values of K.
  struct PackedMatrix {
    int64_t experts, strips, depth;
  };
  void require_packed(const Given& given, const Named& values, const Named& scales,
                      const PackedMatrix& of) const {
    const int64_t blocks = (of.depth + 63) / 64;
    require(given, {values.slot, values.name, kU8, 4, {of.experts, of.strips, blocks, 512}});
    require(given, {scales.slot, scales.name, kU8, 4, {of.experts, of.strips, blocks, 32}});
  }

  void require_biases(const Given& given, const ExpertsFacts& of) const {
    for (const auto& [slot, name, width] :
         {std::tuple{MOETUNE_MOE_EXPERTS_GATE_UP_BIAS, "gate_up_bias", 2 * of.intermediate},
          {MOETUNE_MOE_EXPERTS_DOWN_BIAS, "down_bias", of.hidden}}) {
      refuse_if_given(given, of.activation != 0, slot,
                      "'" + std::string(name) + "' belongs to activation 'swigluoai'");
      if (of.activation != 0)
        require(given, {slot, name, of.is_fp16 != 0 ? kF16 : kBf16, 2, {of.experts, width}});
    }
  }

  void refuse_if_given(const Given& given, bool belongs, int slot, const std::string& why) const {
    if (!belongs && given.tensors[slot] != nullptr) refuse(why);
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
