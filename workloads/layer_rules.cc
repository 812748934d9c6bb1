#include "workloads/layer_rules.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/utf8.h"

namespace moetune {
namespace {

constexpr std::size_t kLongestShownKind = 100;
constexpr std::string_view kFull = kFullAttention, kSliding = kSlidingAttention, kChunked = kChunkedAttention,
                           kLinear = "linear_attention";

// How a field says which layers are `chosen`; the rest are `others`.
enum class Form {
  names,         // a name for each layer
  cycle,         // names that repeat
  letters,       // a letter for each layer
  letter_cycle,  // letters that repeat
  windows,       // windows that repeat; null for none
  flags,         // 0 or 1 for each layer
  ids,           // numbers of layers, the first is 0
  ids_from_one,
  last_of,  // the last of so many layers
  every,    // the layer at an offset of so many
  from      // all from this one on
};

enum class Needs { nothing, window, chunk };

struct KindRule {
  std::string_view path;
  Form form;
  std::string_view chosen, others;
  Needs needs = Needs::nothing;
  std::string_view offset;
};

// The first that a configuration has, in the form of the row, decides.
constexpr auto kKindRules = std::to_array<KindRule>({
    {"layer_types", Form::names, "", ""},
    {"layers_block_type", Form::names, "", ""},
    {"attention_layers", Form::names, "", ""},
    {"hybrid_override_pattern", Form::letters, "", ""},
    {"block_types", Form::cycle, "", ""},
    {"attn_type_list", Form::flags, kFull, kLinear},
    {"hybrid_layer_pattern", Form::flags, kSliding, kFull, Needs::window},
    {"sparse_attention_config.sparse_attention_freq", Form::flags, "sparse_attention", kFull},
    {"linear_attn_config.full_attn_layers", Form::ids_from_one, kFull, kLinear},
    {"full_attn_idxs", Form::ids, kFull, "conv"},
    {"attn_layer_indices", Form::ids, kFull, "mamba"},
    {"cross_attention_layers", Form::ids, "cross_attention", kFull},
    {"local_layer_ids", Form::ids, kSliding, kFull, Needs::window},
    {"no_rope_layers", Form::flags, kChunked, kFull, Needs::chunk},
    {"no_rope_layer_interval", Form::last_of, kFull, kChunked, Needs::chunk},
    {"full_attention_interval", Form::last_of, kFull, kLinear},
    {"layer_group_size", Form::last_of, kFull, kLinear},
    {"attn_layer_period", Form::every, kFull, kLinear, Needs::nothing, "attn_layer_offset"},
    {"global_attn_every_n_layers", Form::last_of, kFull, kSliding, Needs::window},
    {"sliding_window_pattern", Form::letter_cycle, "", "", Needs::window},
    {"sliding_window_pattern", Form::last_of, kFull, kSliding, Needs::window},
    {"_sliding_window_pattern", Form::last_of, kFull, kSliding, Needs::window},
    {"sliding_window", Form::windows, kSliding, kFull},
    {"max_window_layers", Form::from, kSliding, kFull, Needs::window},
});

struct KindName {
  std::string_view name, kind;
};
constexpr auto kKindNames = std::to_array<KindName>({{"attention", kFull},
                                                     {"full", kFull},
                                                     {"global", kFull},
                                                     {"global_attention", kFull},
                                                     {"local", kSliding},
                                                     {"local_attention", kSliding},
                                                     {"sliding", kSliding},
                                                     {"sliding_window", kSliding},
                                                     {"sliding_window_attention", kSliding},
                                                     {"swa", kSliding},
                                                     {"dense", kNoAttention}});
struct KindLetter {
  Form form;
  char letter;
  std::string_view kind;
};
constexpr auto kKindLetters = std::to_array<KindLetter>({{Form::letters, '*', kFull},
                                                         {Form::letters, 'M', "mamba"},
                                                         {Form::letters, 'E', kExpertLayer},
                                                         {Form::letters, '-', kNoAttention},
                                                         {Form::letter_cycle, 'L', kSliding},
                                                         {Form::letter_cycle, 'G', kFull}});

std::string kind_of_name(const JsonPlace& place) {
  const std::string name = place.text();
  for (const KindName& one : kKindNames)
    if (one.name == name) return std::string(one.kind);
  if (std::any_of(name.begin(), name.end(), [](char c) { return c <= ' ' || c > '~'; }))
    throw NotUnderstood{"a kind of layer is no word" + place.shown()};
  return shortened(name, kLongestShownKind);
}

std::string kind_of_letter(const KindRule& rule, const JsonPlace& text, char letter) {
  for (const KindLetter& one : kKindLetters)
    if (one.form == rule.form && one.letter == letter) return std::string(one.kind);
  throw NotUnderstood{std::string(rule.path) + " has a letter that is not known" + text.shown()};
}

bool fits(Form form, const nlohmann::json& value) {
  switch (form) {
    case Form::letters:
    case Form::letter_cycle:
      return value.is_string();
    case Form::last_of:
    case Form::every:
    case Form::from:
      return value.is_number();
    default:
      return value.is_array();
  }
}

bool is_met(const ModelFields& fields, Needs needs) {
  if (needs == Needs::chunk) return fields.number("attention_chunk_size").value_or(0) > 0;
  return needs == Needs::nothing || !sliding_windows(fields).empty();
}

const KindRule* find_kind_rule(const ModelFields& fields) {
  for (const KindRule& rule : kKindRules) {
    const auto found = fields.find(rule.path);
    if (found && fits(rule.form, found->value()) && is_met(fields, rule.needs)) return &rule;
  }
  return nullptr;
}

using Kinds = std::vector<std::string>;

std::string choice(const KindRule& rule, bool is_chosen) { return std::string(is_chosen ? rule.chosen : rule.others); }

Kinds kinds_by_number(const KindRule& rule, std::int64_t number, std::int64_t offset, std::int64_t layers) {
  Kinds kinds;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const bool chosen = rule.form == Form::from      ? layer >= number
                        : rule.form == Form::last_of ? number > 0 && (layer + 1) % number == 0
                                                     : number > 0 && layer % number == offset;
    kinds.push_back(choice(rule, chosen));
  }
  return kinds;
}

Kinds kinds_by_ids(const KindRule& rule, const JsonPlace& list, std::int64_t layers) {
  const std::int64_t first = rule.form == Form::ids_from_one ? 1 : 0;
  Kinds kinds(static_cast<std::size_t>(layers), choice(rule, false));
  for (const JsonPlace& id : list.elements(kMostModelLayers))
    kinds[static_cast<std::size_t>(id.integer(first, layers - 1 + first) - first)] = choice(rule, true);
  return kinds;
}

// The kinds of a text, a letter each, or of a list; both repeat.
Kinds kinds_by_cycle(const KindRule& rule, const JsonPlace& found, std::int64_t layers) {
  Kinds once;
  if (found.value().is_string()) {
    for (const char letter : found.text()) once.push_back(kind_of_letter(rule, found, letter));
  } else {
    for (const JsonPlace& one : found.elements(kMostModelLayers))
      once.push_back(rule.form == Form::windows ? choice(rule, one.value().is_number() && one.value() > 0)
                                                : kind_of_name(one));
  }
  if (once.empty()) found.fail("is empty");
  if (rule.form == Form::letters && static_cast<std::int64_t>(once.size()) != layers)
    found.fail("has " + std::to_string(once.size()) + " letters; num_hidden_layers is " + std::to_string(layers));
  Kinds kinds;
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(layers); ++layer)
    kinds.push_back(once[layer % once.size()]);
  return kinds;
}

Kinds kinds_by_list(const ModelFields& fields, const KindRule& rule, const JsonPlace& list, std::int64_t layers) {
  Kinds kinds;
  for (const JsonPlace& one : fields.layer_list(list, layers)) {
    const nlohmann::json& value = one.value();
    const bool is_flag = value.is_boolean() || value == 0 || value == 1;
    if (rule.form == Form::names ? !value.is_string() : !is_flag)
      throw NotUnderstood{std::string(rule.path) + " has values that are not known" + one.shown()};
    kinds.push_back(rule.form == Form::names ? kind_of_name(one) : choice(rule, value == true || value == 1));
  }
  return kinds;
}

Kinds kinds_by_rule(const ModelFields& fields, const KindRule& rule, std::int64_t layers) {
  const JsonPlace found = *fields.find(rule.path);
  switch (rule.form) {
    case Form::names:
    case Form::flags:
      return kinds_by_list(fields, rule, found, layers);
    case Form::cycle:
    case Form::letters:
    case Form::letter_cycle:
    case Form::windows:
      return kinds_by_cycle(rule, found, layers);
    case Form::ids:
    case Form::ids_from_one:
      return kinds_by_ids(rule, found, layers);
    default:
      return kinds_by_number(rule, found.integer(0, kMostModelExtent),
                             rule.offset.empty() ? 0 : fields.number(rule.offset).value_or(0), layers);
  }
}

// Layers with experts.
enum class ExpertForm { names, flags, ids };
struct ExpertRule {
  std::string_view path;
  ExpertForm form;
};
constexpr auto kExpertRules = std::to_array<ExpertRule>({{"mlp_layer_types", ExpertForm::names},
                                                         {"layers_block_type", ExpertForm::names},
                                                         {"hybrid_override_pattern", ExpertForm::names},
                                                         {"moe_layer_freq", ExpertForm::flags},
                                                         {"is_moe_layer", ExpertForm::flags},
                                                         {"moe_layers", ExpertForm::ids},
                                                         {"moe_layers_enum", ExpertForm::ids}});

// Steps at which layers have experts.
struct StepField {
  std::string_view path;
  bool is_last;  // the last of so many layers, not the first
  std::string_view offset;
};
constexpr auto kSteps = std::to_array<StepField>({{"decoder_sparse_step", true, ""},
                                                  {"interleave_moe_layer_step", true, ""},
                                                  {"moe_layer_interval", true, ""},
                                                  {"moe_layer_frequency", true, ""},
                                                  {"moe_layer_freq", false, ""},
                                                  {"moe.route_every_n", false, ""},
                                                  {"expert_layer_period", false, "expert_layer_offset"}});

struct MlpName {
  std::string_view name;
  bool has_experts, is_unrouted;
};
constexpr auto kMlpNames = std::to_array<MlpName>({{"sparse", true, false},
                                                   {"moe", true, false},
                                                   {"hash_moe", true, true},
                                                   {"dense", false, false},
                                                   {"mlp", false, false}});

ExpertLayerCount count_named(const ModelFields& fields, const JsonPlace& list, std::int64_t layers) {
  ExpertLayerCount count;
  for (const JsonPlace& one : fields.layer_list(list, layers)) {
    const std::string name = one.text();
    const auto known = std::ranges::find(kMlpNames, name, &MlpName::name);
    if (known == kMlpNames.end())
      throw NotUnderstood{"mlp_layer_types has '" + shortened(name, kLongestShownKind) + "', which is not known"};
    count.layers += known->has_experts;
    count.unrouted += known->is_unrouted;
  }
  return count;
}

// A list, or a text with commas.
std::vector<std::int64_t> layer_ids(const JsonPlace& found) {
  std::vector<std::int64_t> ids;
  if (found.value().is_array()) {
    for (const JsonPlace& one : found.elements(kMostModelLayers)) ids.push_back(one.integer(0, kMostModelLayers));
    return ids;
  }
  const std::string text = found.text();
  for (const char* at = text.data(); at < text.data() + text.size();) {
    std::int64_t id = 0;
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), id);
    const bool goes_on = end < text.data() + text.size();
    if (error != std::errc() || id < 0 || id > kMostModelLayers || (goes_on && *end != ','))
      found.fail("must be numbers of layers with commas between" + found.shown());
    ids.push_back(id);
    at = end + (goes_on ? 1 : 0);
  }
  return ids;
}

ExpertLayerCount count_ids(const JsonPlace& found, std::int64_t layers) {
  std::vector<bool> sparse(static_cast<std::size_t>(layers), false);
  for (const std::int64_t id : layer_ids(found))
    if (id < layers) sparse[static_cast<std::size_t>(id)] = true;  // others guess further tokens ahead
  return {std::count(sparse.begin(), sparse.end(), true), 0};
}

// A field is a rule that is not known if its name has a word of each list.
constexpr auto kAttentionWords = std::to_array<std::string_view>(
    {"sliding", "window", "attention", "attn", "swa", "layer_type", "block_type", "hybrid", "local_layer",
     "global_layer", "full_layer", "mamba", "ssm", "linear", "head"});
// Words of fields that matter to every layer's attention, whatever else the name says.
constexpr auto kDecisiveWords = std::to_array<std::string_view>({"window", "local_attention", "mamba", "ssm"});
constexpr auto kExpertWords = std::to_array<std::string_view>({"moe", "expert", "sparse", "dense_layer", "mlp_layer"});
constexpr auto kRuleWords =
    std::to_array<std::string_view>({"pattern", "types", "type_list", "layers", "interval", "every",  "period", "freq",
                                     "_ids",    "idx",   "indices",   "enum",   "schedule", "offset", "step",   "skip",
                                     "stride",  "range", "layout",    "start",  "first",    "last"});
// Words in names that look like a rule and do not say which layers are of which kind.
constexpr auto kOtherWords = std::to_array<std::string_view>(
    {"mtp", "nextn", "num_experts", "rope", "loss", "vision", "audio", "index_", "cache", "time_step", "num_sparse_",
     "intermediate", "shared", "share_expert", "limit", "topk", "top_k", "dtype"});

template <typename Words>
bool has_one_of(std::string_view name, const Words& words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

// Rules that need code of their own.
constexpr auto kOtherRules =
    std::to_array<std::string_view>({"mlp_only_layers", "encoder_sparse_step", "num_attention_heads_per_layer",
                                     "num_key_value_heads_per_layer", "prefix_dense_sliding_window_pattern"});

bool fits(const ExpertRule& rule, const nlohmann::json& value) {
  return value.is_array() || (rule.form != ExpertForm::flags && value.is_string());
}
bool fits(const KindRule& rule, const nlohmann::json& value) { return fits(rule.form, value); }
bool fits(const StepField&, const nlohmann::json& value) { return value.is_number(); }

// A rule in a form that no row has is not known either.
bool is_known_rule(std::string_view key, const nlohmann::json& value) {
  const auto has_it = [&](const auto& table) {
    return std::any_of(table.begin(), table.end(), [&](const auto& rule) {
      if constexpr (requires { rule.offset; })
        if (rule.offset == key) return true;
      return rule.path == key && fits(rule, value);
    });
  };
  const bool says_kinds = std::ranges::any_of(kKindRules, [&](const KindRule& rule) { return rule.path == key; });
  if (says_kinds && !is_fact_name(key)) return has_it(kKindRules);
  return is_fact_name(key) || has_it(kKindRules) || has_it(kExpertRules) || has_it(kSteps) ||
         std::find(kOtherRules.begin(), kOtherRules.end(), key) != kOtherRules.end();
}

bool says_something(const nlohmann::json& value) {
  return (value.is_number() && value != 0 && value != 1) || value.is_string() || (value.is_array() && !value.empty());
}

// The dense layers in front have a pattern of their own, after which the other begins.
void refuse_pattern_of_prefix(const ModelFields& fields, const KindRule& rule) {
  const auto prefix = fields.number("prefix_dense_sliding_window_pattern");
  if (prefix && rule.path == "sliding_window_pattern" && fields.number(Fact::first_sparse).value_or(0) > 0)
    throw NotUnderstood{"prefix_dense_sliding_window_pattern needs a list of layer_types"};
}

// The first of a list is the text's, where kinds of tokens have experts of their own.
std::int64_t first_number(const ModelFields& fields, Fact fact, std::int64_t otherwise) {
  const std::optional<JsonPlace> found = fields.find(fact);
  if (!found) return otherwise;
  const JsonPlace place = found->value().is_array() ? found->elements(kMostModelLayers).front() : *found;
  const std::int64_t value = place.integer(-1, kMostModelExtent);
  return value < 0 ? otherwise : value;
}

}  // namespace

std::vector<std::int64_t> sliding_windows(const ModelFields& fields) {
  if (fields.flag("use_sliding_window") == false) return {};
  const auto found = fields.find(Fact::window);
  if (!found) return {};
  const bool is_list = found->value().is_array();
  std::vector<std::int64_t> windows;
  for (const JsonPlace& one : is_list ? found->elements(kMostModelLayers) : std::vector{*found})
    windows.push_back(one.value().is_null()  // -1 is none as well
                          ? 0
                          : std::max<std::int64_t>(0, one.integer(-1, kMostModelExtent)));
  const bool has_any = std::any_of(windows.begin(), windows.end(), [](std::int64_t w) { return w > 0; });
  return has_any ? windows : std::vector<std::int64_t>();
}

std::vector<std::string> kinds_of_layers(const ModelFields& fields, const ModelFamily* family, std::int64_t layers) {
  if (const KindRule* rule = find_kind_rule(fields)) {
    refuse_pattern_of_prefix(fields, *rule);
    return kinds_by_rule(fields, *rule, layers);
  }
  refuse_unknown_rules(fields, RulesOf::attention);
  if (family != nullptr && family->mixed) {
    const auto rule = std::ranges::find_if(
        kKindRules, [&](const KindRule& one) { return one.path == family->kinds && one.form == Form::last_of; });
    const bool is_known = rule != kKindRules.end();
    if (is_known && is_met(fields, rule->needs)) return kinds_by_number(*rule, family->interval, 0, layers);
    const bool has_no_window = is_known && rule->needs == Needs::window;
    if (!has_no_window) throw NotUnderstood{"it lacks layer_types, and its layers are of several kinds"};
  }
  if (is_met(fields, Needs::chunk)) throw NotUnderstood{"which layers attention_chunk_size is for is not said"};
  return Kinds(static_cast<std::size_t>(layers), std::string(sliding_windows(fields).empty() ? kFull : kSliding));
}

std::optional<std::int64_t> layers_of_lists(const ModelFields& fields) {
  const KindRule* const rule = find_kind_rule(fields);
  if (rule == nullptr || (rule->form != Form::names && rule->form != Form::letters)) return std::nullopt;
  const nlohmann::json& value = fields.find(rule->path)->value();
  const std::size_t size = value.is_string() ? value.get_ref<const std::string&>().size() : value.size();
  if (size == 0 || size > static_cast<std::size_t>(kMostModelLayers)) return std::nullopt;
  return static_cast<std::int64_t>(size);
}

std::optional<ExpertLayerCount> expert_layers_listed(const ModelFields& fields, std::int64_t layers) {
  for (const ExpertRule& rule : kExpertRules) {
    const auto found = fields.find(rule.path);
    if (!found || (rule.form == ExpertForm::flags && !found->value().is_array())) continue;
    if (rule.form == ExpertForm::ids) return count_ids(*found, layers);
    if (rule.path == "mlp_layer_types") return count_named(fields, *found, layers);
    if (rule.form == ExpertForm::flags) {
      ExpertLayerCount count;
      for (const JsonPlace& one : fields.layer_list(*found, layers))
        count.layers += one.value().is_boolean() ? one.boolean() : one.integer(0, 1) == 1;
      return count;
    }
    const Kinds kinds = kinds_of_layers(fields, nullptr, layers);
    const auto count = std::count(kinds.begin(), kinds.end(), kExpertLayer);
    if (count > 0) return ExpertLayerCount{count, 0};
  }
  return std::nullopt;
}

std::vector<bool> sparse_by_steps(const ModelFields& fields, std::int64_t layers) {
  refuse_unknown_rules(fields, RulesOf::experts);
  std::vector<bool> sparse(static_cast<std::size_t>(layers), true);
  const std::int64_t first = first_number(fields, Fact::first_sparse, 0),
                     last = first_number(fields, Fact::last_sparse, layers - 1);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    if (layer < first || layer > last) sparse[static_cast<std::size_t>(layer)] = false;
  }
  for (const StepField& one : kSteps) {
    const auto found = fields.find(one.path);
    if (!found || found->value().is_array()) continue;
    const std::int64_t step = std::max<std::int64_t>(1, found->integer(0, kMostModelExtent));
    const std::int64_t offset = one.is_last ? step - 1 : one.offset.empty() ? 0 : fields.number(one.offset).value_or(0);
    for (std::int64_t layer = 0; layer < layers; ++layer)
      if (layer % step != offset) sparse[static_cast<std::size_t>(layer)] = false;
  }
  if (const auto dense = fields.find("mlp_only_layers"))
    for (const JsonPlace& layer : dense->elements(kMostModelLayers))
      sparse[static_cast<std::size_t>(layer.integer(0, layers - 1))] = false;
  return sparse;
}

void refuse_unknown_rules(const ModelFields& fields, RulesOf layers) {
  const auto count = static_cast<std::size_t>(fields.number(Fact::layers).value_or(0));
  for (const auto& [key, place] : fields.object().members(kMostModelLayers)) {
    const nlohmann::json& value = place.value();
    const bool is_attention = layers == RulesOf::attention;
    const bool is_each = value.is_array() && !value.empty() && value.size() == count;  // of each layer
    const bool is_about = (is_attention ? has_one_of(key, kAttentionWords) : has_one_of(key, kExpertWords)) ||
                          (is_attention && is_each && value.front().is_object());
    if (!is_about || has_one_of(key, kOtherWords)) continue;
    const bool is_decisive = is_attention && has_one_of(key, kDecisiveWords);
    if (!is_decisive && !is_each && !has_one_of(key, kRuleWords)) continue;
    if (!is_known_rule(key, value) && says_something(value))
      throw NotUnderstood{shortened(key, kLongestShownKind) + " is not understood"};
  }
}

}  // namespace moetune
