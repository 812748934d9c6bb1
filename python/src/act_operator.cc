#include "operators.h"
#include "tokens_operator.h"

namespace moetune::python {
namespace {

struct ActFacts {
  int64_t intermediate, is_fp16, activation, in_turn;
};

class ActOperator final : public TokensOperator {
 public:
  explicit ActOperator(bool narrow) : narrow_(narrow) {}

  const char* name() const override { return narrow_ ? "act_mul_e4m3" : "act_mul"; }
  const char* kernel() const override { return "act_mul"; }
  size_t tensor_count() const override { return MOETUNE_ACT_MUL_SCALES + 1; }
  int tokens_slot() const override { return MOETUNE_ACT_MUL_X; }

  FamilyKey key(const Given& given) const override {
    const DLTensor& x = matrix(given, MOETUNE_ACT_MUL_X, "x", "[tokens, 2 * intermediate]");
    require_half(x, "x");
    require_side_by_side(x, "x");
    if (x.shape[1] < 16 || x.shape[1] > 131072 || x.shape[1] % 16 != 0)
      refuse("'x' has rows of " + std::to_string(x.shape[1]) +
             "; they must be a multiple of 16, at most 131072");
    FamilyKey key{.of = this, .device = x.device.device_id};
    key.set(ActFacts{.intermediate = x.shape[1] / 2,
                     .is_fp16 = number_of(x.dtype) == number_of(kF16),
                     .activation = given.integers[kActActivation],
                     .in_turn = given.integers[kActInTurn]});
    check_outputs(given, key);
    return key;
  }

  std::string specialization(const FamilyKey& key) const override {
    const auto facts = key.as<ActFacts>();
    std::string text = "intermediate=" + std::to_string(facts.intermediate);
    if (facts.is_fp16 != 0) text += ",dtype=f16";
    if (facts.activation != 0) text += std::string(",activation=") + kActivations[facts.activation];
    if (facts.in_turn != 0) text += ",gate_up=in_turn";
    return narrow_ ? text + ",out=e4m3" : facts.is_fp16 != 0 ? text + ",out=f16" : text;
  }

  TensorShapes outputs(const Given& given, const FamilyKey& key) const override {
    const int64_t width = key.as<ActFacts>().intermediate;
    const DLTensor& x = *given.tensors[MOETUNE_ACT_MUL_X];
    TensorShapes made;
    made.add({MOETUNE_ACT_MUL_OUT, "out", narrow_ ? kE4m3 : x.dtype, 2, {x.shape[0], width}, true});
    if (narrow_) made.add({MOETUNE_ACT_MUL_SCALES, "scales", kF32, 2, {x.shape[0], (width + 127) / 128}});
    return made;
  }

 private:
  const bool narrow_;
};

}  // namespace

const Operator& act_operator() {
  static const ActOperator made(false);
  return made;
}

const Operator& act_e4m3_operator() {
  static const ActOperator made(true);
  return made;
}

}  // namespace moetune::python
