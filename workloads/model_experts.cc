#include "workloads/model_experts.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/utf8.h"
#include "workloads/model_layers.h"

namespace moetune {
namespace {

constexpr std::size_t kLongestShownName = 100;

// Names of ways to score, in model files and as the router has them.
struct ScoreName {
  std::string_view name, score;
  bool has_bias;
};
constexpr auto kScores = std::to_array<ScoreName>({{"softmax", "softmax", false},
                                                   {"sigmoid", "sigmoid", false},
                                                   {"sqrtsoftplus", "sqrt_softplus", false},
                                                   {"sqrt_softplus", "sqrt_softplus", false},
                                                   {"topk_softmax", "topk_softmax", false},
                                                   {"noaux_tc", "sigmoid", true}});

// Names of topk_method: what groups of experts count as, and whether a bias corrects the selection.
struct MethodName {
  std::string_view name;
  bool uses_groups, by_maximum, has_bias;
};
constexpr auto kMethods = std::to_array<MethodName>(
    {{"greedy", false, false, false}, {"group_limited_greedy", true, true, false}, {"noaux_tc", true, false, true}});

constexpr auto kLogits = std::to_array<std::pair<std::string_view, std::string_view>>({{"fp32", "fp32"},
                                                                                       {"float32", "fp32"},
                                                                                       {"bf16", "bf16"},
                                                                                       {"bfloat16", "bf16"},
                                                                                       {"fp16", "fp16"},
                                                                                       {"float16", "fp16"}});

bool does(Does style, std::optional<bool> said) {
  switch (style) {
    case Does::never:
      return false;
    case Does::always:
      return true;
    case Does::unless_denied:
      return said.value_or(true);
    default:
      return said.value_or(false);
  }
}

class RoutingReader {
 public:
  RoutingReader(const ModelFields& fields, const ModelFamily* family) : fields_(fields), family_(family) {
    if (family != nullptr) style_ = family->routing;
  }

  // Throws NotUnderstood if the router would be another than the model's.
  void read(ExpertLayers& experts, const std::string& dtype) {
    if (family_ != nullptr && !family_->choice.empty()) throw NotUnderstood{std::string(family_->choice)};
    read_score(experts);
    if (experts.score.empty()) throw NotUnderstood{"how this model scores its experts is not known"};
    read_method(experts);
    read_weights(experts);
    read_logits(experts, dtype);
  }

 private:
  bool is_known() const { return family_ != nullptr && !style_.score.empty(); }

  // A family that is not known must say itself what becomes of the scores.
  void read_weights(ExpertLayers& experts) {
    const std::optional<bool> bias = fields_.flag(Fact::bias), renormalize = fields_.flag(Fact::renormalize);
    // One that scores by another function than its family's need not share its bias either.
    const bool is_usual = is_known() && experts.score == style_.score;
    const bool may_have_bias = is_known() ? style_.bias != Does::never : experts.score == "sigmoid";
    if (!is_usual && may_have_bias && !experts.correction_bias && !bias && !names_method_)
      throw NotUnderstood{"whether a bias corrects the selection is not said"};
    const bool has_bias =
        experts.correction_bias || does(is_usual && !names_method_ ? style_.bias : Does::if_said, bias);
    if (!is_known() && !renormalize && experts.score != "topk_softmax")
      throw NotUnderstood{"whether weights are divided by their sum is not said"};
    experts.correction_bias = has_bias;
    experts.renormalize = experts.score == "topk_softmax" || does(style_.renormalize, renormalize);
  }

  void read_logits(ExpertLayers& experts, const std::string& dtype) {
    experts.logits = style_.logits.empty() ? dtype : std::string(style_.logits);
    const std::optional<JsonPlace> said = fields_.find(Fact::logits);
    if (!said) return;
    const std::string name = said->text();
    const auto known = std::find_if(kLogits.begin(), kLogits.end(), [&](const auto& one) { return one.first == name; });
    if (known == kLogits.end()) throw NotUnderstood{"logits of an unknown type" + said->shown()};
    experts.logits = known->second;
  }

  void read_score(ExpertLayers& experts) {
    experts.score = style_.score;
    const std::optional<JsonPlace> said = fields_.find(Fact::scoring);
    if (!said) return;
    const std::string name = said->text();
    const auto known = std::ranges::find(kScores, name, &ScoreName::name);
    if (known == kScores.end()) throw NotUnderstood{"the scoring function is not known" + said->shown()};
    const bool is_of_selected = style_.score == "topk_softmax" && known->score == "softmax";
    if (!is_of_selected) experts.score = known->score;
    experts.correction_bias = known->has_bias;
  }

  void read_method(ExpertLayers& experts) {
    const auto name = fields_.find("topk_method");
    const MethodName* method = nullptr;
    if (name) {
      const std::string text = name->text();
      const auto known = std::ranges::find(kMethods, text, &MethodName::name);
      if (known == kMethods.end()) throw NotUnderstood{"topk_method is not known" + name->shown()};
      method = &*known;
      names_method_ = true;
      experts.correction_bias = experts.correction_bias || method->has_bias;
    }
    const std::int64_t groups = fields_.number(Fact::groups).value_or(1),
                       kept = fields_.number(Fact::groups_kept).value_or(1);
    if (groups <= 1 || kept >= groups || (method != nullptr && !method->uses_groups)) return;
    if (method != nullptr && method->by_maximum)
      throw NotUnderstood{"groups are ranked by their best expert, and not by their two best"};
    if (method == nullptr && !is_known()) throw NotUnderstood{"how it ranks groups of experts is not known"};
    experts.groups = groups;
    experts.groups_kept = std::max<std::int64_t>(1, kept);
  }

  const ModelFields& fields_;
  const ModelFamily* family_;
  RoutingStyle style_;
  bool names_method_ = false;  // which says whether there is a bias
};

// Quantization of weights alone: tokens move as they are.
constexpr auto kWeightsAlone = std::to_array<std::string_view>(
    {"mxfp4", "gptq", "awq", "bitsandbytes", "auto-round", "gguf", "hqq", "aqlm", "gptq_marlin", "awq_marlin"});

// How activations of compressed-tensors and their like are stored: "group" or "token" as moe_dispatch has it.
std::string scale_of_activations(const ModelFields& group) {
  const auto bits = group.number("input_activations.num_bits");
  if (!bits) return "";  // as they are
  const auto type = group.find("input_activations.type"), strategy = group.find("input_activations.strategy");
  const std::string how = strategy ? strategy->text() : "";
  if (*bits != 8 || !type || type->text() != "float") throw NotUnderstood{"activations are no 8-bit floats"};
  if (how == "token") return "token";
  if (how == "group" && group.number("input_activations.group_size") == 128) return "group";
  throw NotUnderstood{"scales of activations are for each " + (how.empty() ? "tensor" : how)};
}

std::string scale_of_groups(const ModelFields& quantized) {
  const auto groups = quantized.find("config_groups");
  if (!groups) throw NotUnderstood{"it lists no config_groups"};
  std::optional<std::string> all;
  for (const auto& [name, place] : groups->members(64)) {
    const std::string one = scale_of_activations(ModelFields(place));
    if (all && *all != one) throw NotUnderstood{"its config_groups differ"};
    all = one;
  }
  return all.value_or("");
}

std::string scale_of_fp8(const ModelFields& quantized) {
  const auto block = quantized.find("weight_block_size");
  if (!block) throw NotUnderstood{"its scales are for a whole tensor"};
  for (const JsonPlace& one : block->elements(2))
    if (one.integer(1, kMostModelExtent) != 128)
      throw NotUnderstood{"its scales are for blocks of another size than 128" + block->shown()};
  return "group";
}

// Why `read` leaves its part out; empty if it does not.
template <typename Read>
std::string why_left_out(Read read) {
  try {
    read();
    return "";
  } catch (const NotUnderstood& not_understood) {
    return not_understood.why;
  }
}

// How the model is quantized; an empty object says that it is not.
std::optional<JsonPlace> quantization_of(const ModelFields& place) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (auto found = place.find(key); found && !found->value().empty()) return found;
  }
  return std::nullopt;
}

// The scales of e4m3 rows that are sent to experts; empty for bf16.
std::string sent_scale(const ModelFields& root, const ModelFields& fields) {
  for (const ModelFields* place : {&fields, &root}) {
    if (place->find("quantization.qformat_weight")) throw NotUnderstood{"its scales are for a whole tensor"};
    const auto found = quantization_of(*place);
    if (!found) continue;
    const ModelFields quantized(*found);
    const auto method = quantized.find("quant_method");
    const std::string name = method ? method->text() : "";
    if (name == "fp8") return scale_of_fp8(quantized);
    if (name == "compressed-tensors") return scale_of_groups(quantized);
    if (name == "fbgemm_fp8") return "token";
    if (std::find(kWeightsAlone.begin(), kWeightsAlone.end(), name) != kWeightsAlone.end()) return "";
    throw NotUnderstood{"its method is not known" + (method ? method->shown() : "")};
  }
  return "";
}

// How the weights of experts are stored: as the activations ("same"), or as moe_experts names it.
std::string stored_weights(const ModelFields& root, const ModelFields& fields) {
  for (const ModelFields* place : {&fields, &root}) {
    if (place->find("quantization")) throw NotUnderstood{"quantized weights have no kernel"};
    const auto found = quantization_of(*place);
    if (!found) continue;
    const ModelFields quantized(*found);
    const auto method = quantized.find("quant_method");
    const std::string name = method ? method->text() : "";
    if (name == "mxfp4") return name;
    if (name == "fp8" && why_left_out([&] { scale_of_fp8(quantized); }).empty()) return "e4m3";
    throw NotUnderstood{"weights that are quantized so have no kernel" + (method ? method->shown() : "")};
  }
  return "same";
}

// Reads how the products of experts are computed, by gated products with or without gpt-oss' ways.
void read_products(ExpertLayers& experts, const ModelFields& root, const ModelFields& fields,
                   const NamedFamily& family) {
  if (family.row == nullptr) throw NotUnderstood{"what its experts compute is not known"};
  const ExpertMath math = expert_math(family.type);
  if (!math.why_other.empty()) throw NotUnderstood{std::string(math.why_other)};
  const std::string weights = stored_weights(root, fields);
  const std::optional<JsonPlace> limit = fields.find("swiglu_limit");
  if (math.as_gpt_oss && limit && limit->value() != 7.0)
    throw NotUnderstood{"gate and up are clamped elsewhere than at 7" + limit->shown()};
  const std::optional<JsonPlace> activation = fields.find(Fact::activation);
  if (!activation) throw NotUnderstood{"their activation is not said"};
  const std::string name = activation->text();
  if (name != "silu" && name != "swish") throw NotUnderstood{"their activation has no kernel" + activation->shown()};
  std::optional<std::int64_t> width = fields.number(Fact::expert_width, 1);
  if (!width && math.has_width_of_all) width = fields.number(Fact::width, 1);
  if (!width) throw NotUnderstood{"how wide an expert is, is not said"};
  experts.intermediate = *width;
  if (weights != "same") experts.product_options = ",w=" + weights;
  if (math.as_gpt_oss) experts.product_options += ",activation=swigluoai";
  if (math.as_gpt_oss && weights == "same") experts.product_options += ",layout=n_major";
}

// Refuses a model that seems to count its experts under a name that is not known, itself or in an object of its own.
void refuse_other_counts(const JsonPlace& object, const std::string& inside) {
  for (const auto& [key, place] : object.members(kMostModelLayers)) {
    const std::string path = inside + key;
    const nlohmann::json& value = place.value();
    if (value.is_object() && inside.empty()) refuse_other_counts(place, path + ".");
    const bool counts = (value.is_number() && value > 1) || (value.is_array() && !value.empty());
    if (counts && path.find("expert") != std::string::npos)
      throw NotUnderstood{shortened(path, kLongestShownName) + " is not understood"};
  }
}

// Their number, and how many a token gets; false if there is nothing to serve.
bool read_counts(ExpertLayers& experts, const ModelFields& fields, std::vector<std::string>& notes) {
  const std::optional<std::int64_t> said = fields.number(Fact::experts);
  const std::int64_t count = said.value_or(0);
  if (!said) refuse_other_counts(fields.object(), "");
  if (count <= 1 || fields.flag(Fact::uses_experts) == false) {
    notes.push_back("it has no experts, and so no workload that moves tokens to them");
    return false;
  }
  const std::optional<std::int64_t> top_k = fields.number(Fact::top_k);
  if (!top_k || *top_k == 0)
    throw NotUnderstood{"how many of its " + std::to_string(count) + " experts a token gets is not said"};
  experts.experts = count;
  experts.top_k = *top_k;
  experts.zero_experts = fields.number(Fact::zero_experts).value_or(0);
  experts.hidden = fields.number(Fact::moved).value_or(0);
  if (experts.hidden == 0) experts.hidden = fields.needed(Fact::hidden);
  return true;
}

}  // namespace

ExpertLayers read_experts(const ModelFields& root, const ModelFields& fields, const NamedFamily& family,
                          const std::string& dtype, std::int64_t layers, std::vector<std::string>& notes) {
  ExpertLayers experts;
  bool has_any = false;
  const std::string why = why_left_out([&] {
    has_any = read_counts(experts, fields, notes);
    if (!has_any) return;
    const ExpertLayerCount count = count_expert_layers(fields, layers);
    experts.layers = count.layers;
    experts.unrouted_layers = count.unrouted;
    if (count.layers == 0)
      notes.push_back("it has " + std::to_string(experts.experts) +
                      " experts and no layer that uses them: no workload moves tokens to them");
  });
  if (!why.empty()) notes.push_back("no workload moves tokens to its experts: " + why);
  if (!has_any || !why.empty()) return {};
  experts.why_unscored = why_left_out([&] {
    ExpertLayers scored = experts;
    RoutingReader(fields, family.row).read(scored, dtype);
    experts = scored;
  });
  experts.why_sent_plain = why_left_out([&] { experts.sent_scale = sent_scale(root, fields); });
  experts.why_no_products = why_left_out([&] { read_products(experts, root, fields, family); });
  return experts;
}

}  // namespace moetune
