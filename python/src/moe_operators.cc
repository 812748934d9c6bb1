#include <algorithm>
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
  int tokens_slot() const override { return MOETUNE_MOE_DISPATCH_X; }

  FamilyKey key(const Given& given) const override {
    const DLTensor& x = matrix(given, MOETUNE_MOE_DISPATCH_X, "x", "[tokens, hidden]");
    const DLTensor& inverse = matrix(given, MOETUNE_MOE_DISPATCH_INVERSE, "inverse", "[tokens, top_k]");
    const DLTensor& sorted = tensor(given, MOETUNE_MOE_DISPATCH_SORTED, "sorted");
    if (sorted.ndim != 1) refuse("'sorted' has " + std::to_string(sorted.ndim) + " dimensions; it must be [places]");
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
  int tokens_slot() const override { return MOETUNE_MOE_COMBINE_INVERSE; }

  FamilyKey key(const Given& given) const override {
    const DLTensor& rows = matrix(given, MOETUNE_MOE_COMBINE_ROWS, "rows", "[places, hidden]");
    const DLTensor& inverse = matrix(given, MOETUNE_MOE_COMBINE_INVERSE, "inverse", "[tokens, top_k]");
    const std::array<int64_t, MOETUNE_MAX_RANK> slots{inverse.shape[0], inverse.shape[1]};
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
  int64_t n_major;  // weights are views whose columns lie side by side
  int64_t has_up, has_down, x_places, out_places;
};

// Whether the last dimension of a matrix lies apart, and that before it side by side.
bool is_transposed(const DLTensor& matrix) {
  return matrix.ndim == 3 && matrix.strides != nullptr && matrix.strides[2] != 1 && matrix.strides[1] == 1;
}

// Tensors that a call lacks say what it is: without weights of a product the other is alone, without `sorted` x has a
// row for each place, and without `inverse` the output.
class ExpertsOperator final : public TokensOperator {
 public:
  const char* name() const override { return "moe_experts"; }
  const char* kernel() const override { return "moe_experts"; }
  int tokens_slot() const override { return MOETUNE_MOE_EXPERTS_X; }

  FreeExtents extents(const Given& given) const override {
    const int64_t rows = given.tensors[MOETUNE_MOE_EXPERTS_X]->shape[0];
    const DLTensor* const inverse = given.tensors[MOETUNE_MOE_EXPERTS_INVERSE];
    if (given.tensors[MOETUNE_MOE_EXPERTS_SORTED] != nullptr) return {{rows}, 1};
    if (inverse != nullptr) return {{inverse->shape[0]}, 1};
    const int64_t top_k = std::max<int64_t>(given.integers[kExpertsTopK], 1);
    return {{round_up(rows, top_k) / top_k}, 1};
  }

  FamilyKey key(const Given& given) const override {
    const bool x_places = given.tensors[MOETUNE_MOE_EXPERTS_SORTED] == nullptr;
    const DLTensor& x = matrix(given, MOETUNE_MOE_EXPERTS_X, "x", x_places ? "[places, values]" : "[tokens, hidden]");
    const bool is_e4m3 = number_of(x.dtype) == number_of(kE4m3), is_fp16 = number_of(x.dtype) == number_of(kF16);
    if (!is_e4m3 && !is_fp16 && number_of(x.dtype) != number_of(kBf16))
      refuse("'x' is " + type_text(x.dtype) + "; it must be bf16, fp16 or e4m3");
    require_side_by_side(x, "x");
    const ExpertsFacts facts = sizes(given, x, is_e4m3, is_fp16);
    require_lists(given, facts);
    require_weights(given, facts, x.shape[0]);
    require_biases(given, facts);
    FamilyKey key{.of = this, .device = x.device.device_id};
    key.set(facts);
    check_outputs(given, key);
    return key;
  }

  std::string specialization(const FamilyKey& key) const override {
    static constexpr const char* kWeights[] = {"", ",w=e4m3", ",w=mxfp4"};
    const auto facts = key.as<ExpertsFacts>();
    return "hidden=" + std::to_string(facts.hidden) + pair("experts", facts.experts) + pair("top_k", facts.top_k) +
           pair("intermediate", facts.intermediate) + ",dtype=" + (facts.is_fp16 != 0 ? "fp16" : "bf16") +
           kWeights[facts.weights] + (facts.n_major != 0 ? ",layout=n_major" : "") +
           (facts.activation != 0 ? std::string(",activation=") + kActivations[facts.activation] : "") +
           (facts.has_down == 0 ? ",part=up"
            : facts.has_up == 0 ? ",part=down"
                                : "") +
           (facts.x_places != 0 ? ",x=places" : "") + (facts.out_places != 0 ? ",out=places" : "");
  }

  TensorShapes outputs(const Given& given, const FamilyKey& key) const override {
    const auto facts = key.as<ExpertsFacts>();
    TensorShapes made;
    made.add({MOETUNE_MOE_EXPERTS_OUT,
              "out",
              facts.is_fp16 != 0 ? kF16 : kBf16,
              2,
              {facts.out_places != 0 ? places(given) : extents(given).values[0],
               facts.has_down != 0 ? facts.hidden : facts.intermediate},
              facts.out_places == 0});
    return made;
  }

 private:
  static int64_t x_width(const ExpertsFacts& of) { return of.has_up != 0 ? of.hidden : of.intermediate; }
  static int64_t places(const Given& given) {
    const DLTensor* const sorted = given.tensors[MOETUNE_MOE_EXPERTS_SORTED];
    return (sorted != nullptr ? sorted : given.tensors[MOETUNE_MOE_EXPERTS_X])->shape[0];
  }

  // Packed weights are bytes: [experts, hidden / 16, blocks of K, 512], and of w_gate_up [experts, intermediate / 8,
  // ...].
  ExpertsFacts sizes(const Given& given, const DLTensor& x, bool is_e4m3, bool is_fp16) const {
    const DLTensor* const up = given.tensors[MOETUNE_MOE_EXPERTS_W_GATE_UP];
    const DLTensor* const down = given.tensors[MOETUNE_MOE_EXPERTS_W_DOWN];
    if (up == nullptr && down == nullptr) refuse("'w_gate_up' and 'w_down' are both missing");
    const DLTensor& known = down != nullptr ? *down : *up;
    const bool is_packed = number_of(known.dtype) == number_of(kU8);
    if (down != nullptr && down->ndim != (is_packed ? 4 : 3))
      refuse("'w_down' has " + std::to_string(down->ndim) + " dimensions; it must be [experts, hidden" +
             (is_packed ? " / 16, blocks, 512]" : ", intermediate]"));
    if (up != nullptr && is_packed && up->ndim != 4)
      refuse("'w_gate_up' has " + std::to_string(up->ndim) +
             " dimensions; it must be [experts, intermediate / 8, blocks, 512]");
    if (up != nullptr && down == nullptr && !is_packed && up->ndim != 3)
      refuse("'w_gate_up' has " + std::to_string(up->ndim) +
             " dimensions; it must be [experts, 2 * intermediate, hidden]");
    if (is_packed && (is_e4m3 || is_fp16)) refuse("weights in mxfp4 go with an 'x' of bf16");
    const int64_t activation = given.integers[kActivation];
    if (is_e4m3 && activation != 0) refuse("activation 'swigluoai' is not for e4m3");
    return {.hidden = up != nullptr ? x.shape[1] : (is_packed ? 16 : 1) * down->shape[1],
            .intermediate = up == nullptr     ? x.shape[1]
                            : is_packed       ? 8 * up->shape[1]
                            : down == nullptr ? up->shape[1] / 2
                                              : down->shape[2],
            .experts = known.shape[0],
            .top_k = top_k(given),
            .is_fp16 = is_fp16,
            .weights = is_packed ? kPacked
                       : is_e4m3 ? kNarrow
                                 : kSame,
            .activation = activation,
            .n_major = !is_packed && !is_e4m3 && is_transposed(known),
            .has_up = up != nullptr,
            .has_down = down != nullptr,
            .x_places = given.tensors[MOETUNE_MOE_EXPERTS_SORTED] == nullptr,
            .out_places = given.tensors[MOETUNE_MOE_EXPERTS_INVERSE] == nullptr};
  }

  int64_t top_k(const Given& given) const {
    const int64_t stated = given.integers[kExpertsTopK];
    if (given.tensors[MOETUNE_MOE_EXPERTS_INVERSE] == nullptr) {
      require_at_least(1, "top_k", stated);
      return stated;
    }
    const DLTensor& inverse = matrix(given, MOETUNE_MOE_EXPERTS_INVERSE, "inverse", "[tokens, top_k]");
    if (stated != 0 && stated != inverse.shape[1])
      refuse("top_k is " + std::to_string(stated) + "; that of 'inverse' is " + std::to_string(inverse.shape[1]));
    return inverse.shape[1];
  }

  void require_lists(const Given& given, const ExpertsFacts& of) const {
    if (of.has_down == 0 && of.out_places == 0)
      refuse("without 'w_down' the output has a row for each place, and there is no 'inverse'");
    if (of.has_up == 0 && of.x_places == 0)
      refuse("without 'w_gate_up' x has a row for each place, and there is no 'sorted'");
    require(given, {MOETUNE_MOE_EXPERTS_OFFSETS, "offsets", kI32, 1, {of.experts + 1}});
    if (of.x_places == 0) {
      const DLTensor& sorted = tensor(given, MOETUNE_MOE_EXPERTS_SORTED, "sorted");
      if (sorted.ndim != 1) refuse("'sorted' has " + std::to_string(sorted.ndim) + " dimensions; it must be [places]");
      require(given, {MOETUNE_MOE_EXPERTS_SORTED, "sorted", kI32, 1, {sorted.shape[0]}});
    }
    refuse_if_given(given, of.out_places == 0, MOETUNE_MOE_EXPERTS_WEIGHTS, "'weights' go with 'inverse'");
    if (of.out_places != 0) return;
    const std::array<int64_t, MOETUNE_MAX_RANK> slots{extents(given).values[0], of.top_k};
    require(given, {MOETUNE_MOE_EXPERTS_INVERSE, "inverse", kI32, 2, slots});
    require(given, {MOETUNE_MOE_EXPERTS_WEIGHTS, "weights", kF32, 2, slots});
  }

  void require_weights(const Given& given, const ExpertsFacts& of, int64_t rows) const {
    const int64_t group = of.weights == kPacked ? 32 : 128;  // values of K that share a scale
    if (of.weights != kSame && (of.hidden % group != 0 || of.intermediate % group != 0))
      refuse("hidden " + std::to_string(of.hidden) + " and intermediate " + std::to_string(of.intermediate) +
             " must be multiples of " + std::to_string(group) + ", the values that share a scale");
    refuse_if_given(given, of.weights == kNarrow, MOETUNE_MOE_EXPERTS_X_SCALE, "'x_scale' belongs to an 'x' of e4m3");
    require_product(given, of, of.has_up != 0, {MOETUNE_MOE_EXPERTS_W_GATE_UP, "w_gate_up"},
                    {MOETUNE_MOE_EXPERTS_GATE_UP_SCALE, "gate_up_scale"}, {of.experts, 2 * of.intermediate, of.hidden});
    require_product(given, of, of.has_down != 0, {MOETUNE_MOE_EXPERTS_W_DOWN, "w_down"},
                    {MOETUNE_MOE_EXPERTS_DOWN_SCALE, "down_scale"}, {of.experts, of.hidden, of.intermediate});
    if (of.weights == kNarrow)
      require(given, {MOETUNE_MOE_EXPERTS_X_SCALE, "x_scale", kF32, 2, {rows, x_width(of) / group}});
  }

  struct Named {
    int slot;
    const char* name;
  };
  // A matrix of each expert.
  struct Matrix {
    int64_t experts, rows, depth;
  };
  // The weights of a product and their scales; neither if the call lacks the product.
  void require_product(const Given& given, const ExpertsFacts& of, bool is_there, const Named& values,
                       const Named& scales, const Matrix& matrix) const {
    refuse_if_given(given, is_there, scales.slot,
                    "'" + std::string(scales.name) + "' belongs to '" + values.name + "', which is missing");
    refuse_if_given(given, of.weights != kSame, scales.slot,
                    "'" + std::string(scales.name) + "' belongs to weights in e4m3 or mxfp4");
    if (!is_there) return;
    if (of.weights == kPacked) {  // blocks of 16 rows by 64 of K
      const int64_t strips = matrix.rows / 16, blocks = (matrix.depth + 63) / 64;
      require(given, {values.slot, values.name, kU8, 4, {matrix.experts, strips, blocks, 512}});
      require(given, {scales.slot, scales.name, kU8, 4, {matrix.experts, strips, blocks, 32}});
      return;
    }
    const DLDataType type = of.weights == kNarrow ? kE4m3 : of.is_fp16 != 0 ? kF16 : kBf16;
    const TensorShape shape{values.slot, values.name, type, 3, {matrix.experts, matrix.rows, matrix.depth}, true};
    if (of.n_major == 0) {
      require(given, shape);
    } else {
      const DLTensor& found = tensor(given, values.slot, values.name);
      require_shape(found, shape);
      if (!is_transposed(found))
        refuse("the elements of each column of 'w_gate_up' must lie side by side, as those of 'w_down' do");
    }
    if (of.weights == kNarrow)
      require(given, {scales.slot, scales.name, kF32, 3, {matrix.experts, matrix.rows / 128, matrix.depth / 128}});
  }

  void require_biases(const Given& given, const ExpertsFacts& of) const {
    for (const auto& [slot, name, width, is_there] :
         {std::tuple{MOETUNE_MOE_EXPERTS_GATE_UP_BIAS, "gate_up_bias", 2 * of.intermediate, of.has_up},
          {MOETUNE_MOE_EXPERTS_DOWN_BIAS, "down_bias", of.hidden, of.has_down}}) {
      refuse_if_given(given, is_there != 0, slot, "'" + std::string(name) + "' belongs to a product that is missing");
      refuse_if_given(given, of.activation != 0, slot, "'" + std::string(name) + "' belongs to activation 'swigluoai'");
      if (of.activation != 0 && is_there != 0)
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
