#include "operators.h"
#include "tokens_operator.h"

namespace moetune::python {
namespace {

struct NormFacts {
  int64_t hidden, is_fp16, adds, plus_one, scale_of;
};

class NormOperator final : public TokensOperator {
 public:
  explicit NormOperator(bool narrow) : narrow_(narrow) {}

  const char* name() const override { return narrow_ ? "add_rmsnorm_e4m3" : "add_rmsnorm"; }
  const char* kernel() const override { return "add_rmsnorm"; }
  size_t tensor_count() const override { return MOETUNE_ADD_RMSNORM_RESIDUAL_OUT + 1; }
  int tokens_slot() const override { return MOETUNE_ADD_RMSNORM_X; }

  FamilyKey key(const Given& given) const override {
    const DLTensor& x = matrix(given, MOETUNE_ADD_RMSNORM_X, "x", "[tokens, hidden]");
    const int64_t hidden = x.shape[1];
    require_half(x, "x");
    if (hidden < 8 || hidden > 16384 || hidden % 8 != 0)
      refuse("hidden is " + std::to_string(hidden) + "; it must be a multiple of 8, at most 16384");
    require_side_by_side(x, "x");
    require(given, {MOETUNE_ADD_RMSNORM_WEIGHT, "weight", x.dtype, 1, {hidden}});
    require_if_given(given,
                     {MOETUNE_ADD_RMSNORM_RESIDUAL, "residual", x.dtype, 2, {x.shape[0], hidden}, true});
    FamilyKey key{.of = this, .device = x.device.device_id};
    key.set(NormFacts{.hidden = hidden,
                      .is_fp16 = number_of(x.dtype) == number_of(kF16),
                      .adds = given.tensors[MOETUNE_ADD_RMSNORM_RESIDUAL] != nullptr,
                      .plus_one = given.integers[kPlusOne],
                      .scale_of = given.integers[kNormScaleOf]});
    check_outputs(given, key);
    return key;
  }

  std::string specialization(const FamilyKey& key) const override {
    const auto facts = key.as<NormFacts>();
    std::string text = "hidden=" + std::to_string(facts.hidden);
    if (facts.is_fp16 != 0) text += ",dtype=f16";
    if (facts.adds != 0) text += ",residual=yes";
    if (facts.plus_one != 0) text += ",weight=plus_one";
    if (narrow_) return text + ",out=e4m3,scale=" + kScalesOf[facts.scale_of];
    return facts.is_fp16 != 0 ? text + ",out=f16" : text;
  }

  TensorShapes outputs(const Given& given, const FamilyKey& key) const override {
    const auto facts = key.as<NormFacts>();
    const DLTensor& x = *given.tensors[MOETUNE_ADD_RMSNORM_X];
    const int64_t tokens = x.shape[0], groups = facts.scale_of == 0 ? (facts.hidden + 127) / 128 : 1;
    TensorShapes made;
    made.add({MOETUNE_ADD_RMSNORM_OUT, "out", narrow_ ? kE4m3 : x.dtype, 2, {tokens, facts.hidden}, true});
    if (narrow_) made.add({MOETUNE_ADD_RMSNORM_SCALES, "scales", kF32, 2, {tokens, groups}});
    return made;
  }

  void complete(const Given& given, moetune_arguments& arguments) const override {
    arguments.reals[MOETUNE_ADD_RMSNORM_EPS] = given.scale;
  }

 private:
  const bool narrow_;
};

}  // namespace

const Operator& norm_operator() {
  static const NormOperator made(false);
  return made;
}

const Operator& norm_e4m3_operator() {
  static const NormOperator made(true);
  return made;
}

}  // namespace moetune::python
