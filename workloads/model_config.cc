#include "workloads/model_config.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/regular_file.h"
#include "base/utf8.h"
#include "workloads/model_experts.h"
#include "workloads/model_families.h"
#include "workloads/model_fields.h"
#include "workloads/model_layers.h"

namespace moetune {
namespace {

constexpr std::size_t kMostConfigBytes = std::size_t{4} << 20, kLongestType = 100, kDeepest = 4, kMostKinds = 64;

// Keys under which a model with several kinds of input keeps its language model.
constexpr auto kLanguageModels = std::to_array<std::string_view>(
    {"text_config", "thinker_config", "llm_config", "language_config", "language_model_config", "language_model",
     "text_model_config", "llm_cfg", "text_cfg"});

// A way to reach a longer context than the trained one.
struct RopeType {
  std::string_view name;
  bool stretches;  // by a factor, from the original length
  bool needs_original = false;
};
constexpr auto kRopeTypes = std::to_array<RopeType>({{"yarn", true, true},
                                                     {"deepseek_yarn", true, true},
                                                     {"linear", true},
                                                     {"dynamic", true},
                                                     {"default", false},
                                                     {"mrope", false},
                                                     {"llama3", false},
                                                     {"longrope", false},
                                                     {"su", false},
                                                     {"proportional", false}});

// The text with null for NaN and infinities, which Python writes and JSON lacks. Nothing that is read is one.
std::string without_odd_numbers(std::string_view text) {
  std::string plain;
  bool is_string = false;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 1;
    if (text[at] == '"') is_string = !is_string;
    if (is_string && text[at] == '\\') length = 2;
    bool is_odd = false;
    for (const std::string_view odd : {"-Infinity", "Infinity", "NaN"}) {
      if (is_string || is_odd || !text.substr(at).starts_with(odd)) continue;
      is_odd = true;
      length = odd.size();
    }
    plain += is_odd ? std::string_view("null") : text.substr(at, length);
    at += length;
  }
  return plain;
}

// Whether the object has layers, or holds a language model that has.
bool is_model(const JsonPlace& object) {
  const ModelFields fields(object);
  return fields.find(Fact::layers) || std::ranges::any_of(kLanguageModels, [&](std::string_view key) {
           const auto inner = fields.find(key);
           return inner && inner->value().is_object() && ModelFields(*inner).find(Fact::layers);
         });
}

class ConfigReader {
 public:
  explicit ConfigReader(const LocatedJson& file)
      : root_(file.root()), fields_(language_model(root_.object(), config_.notes)) {}

  ModelConfig read() {
    read_type();
    config_.facts.dtype = dtype();
    read_context();
    const std::int64_t layers = count_model_layers(fields_);
    config_.facts.layers = layers;
    read_attention(layers);
    read_small();
    config_.facts.experts = read_experts(root_, fields_, {type_, family_}, config_.facts.dtype, layers, config_.notes);
    return std::move(config_);
  }

 private:
  static std::optional<JsonPlace> inner_model(const JsonPlace& place, std::vector<std::string>& notes);
  static JsonPlace language_model(JsonPlace place, std::vector<std::string>& notes);
  void note(std::string sentence) { config_.notes.push_back(std::move(sentence)); }

  void read_type();
  std::string dtype();
  void read_context();
  std::optional<double> stretched(const JsonPlace& rope);
  void read_attention(std::int64_t layers);
  void add_attention(ModelLayer layer, std::int64_t count);
  void add_latent(const ModelLayer& layer, std::int64_t count);
  void add_layers(AttentionLayers layers,
                  std::int64_t count);  // that are as `layers`, whose number is not read
  void read_small();

  ModelConfig config_;
  ModelFields root_, fields_;
  std::string type_;
  const ModelFamily* family_ = nullptr;
};

std::optional<JsonPlace> ConfigReader::inner_model(const JsonPlace& place, std::vector<std::string>& notes) {
  constexpr std::size_t kMostNamed = 8;
  std::optional<JsonPlace> inner;
  std::string others;
  std::size_t count = 0;
  for (const auto& [key, member] : place.members(kMostModelLayers)) {
    if (!member.value().is_object()) continue;
    const bool is_language = std::find(kLanguageModels.begin(), kLanguageModels.end(), key) != kLanguageModels.end();
    if (is_language && !inner)
      inner = member;
    else if (is_model(member) && ++count <= kMostNamed)
      others += (others.empty() ? "" : ", ") + shortened(key, kLongestType);
  }
  if (inner && !others.empty()) notes.push_back("other models beside the language model are left out: " + others);
  return inner;
}

JsonPlace ConfigReader::language_model(JsonPlace place, std::vector<std::string>& notes) {
  for (std::size_t depth = 0; depth < kDeepest; ++depth) {
    const std::optional<JsonPlace> inner = inner_model(place, notes);
    if (!inner) break;
    // The model's own fields may stand outside of it.
    if (ModelFields(place).find(Fact::layers) && !ModelFields(*inner).find(Fact::layers)) break;
    place = *inner;
  }
  return place;
}

void ConfigReader::read_type() {
  auto type = fields_.find("model_type");
  if (!type) type = root_.find("model_type");
  type_ = type ? type->text() : "";
  if (type_.size() > kLongestType ||
      std::any_of(type_.begin(), type_.end(), [](char c) { return c <= ' ' || c > '~'; }))
    type->fail("must be a word of at most " + std::to_string(kLongestType) + " bytes" + type->shown());
  if (type_.empty() && fields_.find("n_layers") && fields_.find("dim")) type_ = "mistral_params";
  family_ = find_model_family(type_);
  config_.facts.name = type_.empty() ? "model" : type_ == "mistral_params" ? "mistral" : type_;
  if (family_ != nullptr && !family_->beside.empty()) note(std::string(family_->beside));
  if (family_ == nullptr)
    note((type_.empty() ? "it names no model_type" : "the model type '" + type_ + "' is not known") +
         ": its fields are taken as they are named");
}

std::string ConfigReader::dtype() {
  std::optional<JsonPlace> found;
  for (const ModelFields* fields : {&fields_, &root_})
    for (const char* key : {"torch_dtype", "dtype"})
      if (!found) found = fields->find(key);
  const std::string name = found ? found->text() : "bfloat16";
  if (name == "float16") return "fp16";
  if (name != "bfloat16" && name != "auto") {
    config_.facts.unserved_dtype = shortened(name, kLongestType);
    note("activations of " + config_.facts.unserved_dtype + " are taken as bf16");
  }
  return "bf16";
}

// The context that a stretched rotation reaches, or nullopt.
std::optional<double> ConfigReader::stretched(const JsonPlace& rope) {
  const ModelFields fields(rope);
  for (const char* kind : {"full_attention", "main"})
    if (const auto own = fields.find(kind); own && own->value().is_object()) return stretched(*own);
  auto type = fields.find("rope_type");
  if (!type) type = fields.find("type");
  if (!type) return std::nullopt;
  const std::string name = type->text();
  const auto known = std::ranges::find(kRopeTypes, name, &RopeType::name);
  if (known == kRopeTypes.end())
    note("contexts end where max_position_embeddings says: the rope type is not known" + type->shown());
  const auto factor = fields.find("factor"), original = fields.find("original_max_position_embeddings");
  if (known == kRopeTypes.end() || !known->stretches || !factor) return std::nullopt;
  if (known->needs_original && !original)
    note("contexts end where max_position_embeddings says: " + name +
         " lacks original_max_position_embeddings, from which its factor counts");
  if (!original) return std::nullopt;
  return factor->positive() * original->positive();
}

void ConfigReader::read_context() {
  std::int64_t longest = fields_.number(Fact::context).value_or(0);
  for (const char* key : {"rope_scaling", "rope_parameters", "yarn"}) {
    const auto rope = fields_.find(key);
    if (!rope || !rope->value().is_object()) continue;
    const auto factor = rope->find("factor"), original = rope->find("original_max_position_embeddings");
    const bool is_yarn = std::string_view(key) == "yarn" && factor && original;
    const auto reached = is_yarn ? std::optional(factor->positive() * original->positive()) : stretched(*rope);
    if (reached && longest > 0 && *reached < static_cast<double>(kMostModelExtent))
      longest = std::max(longest, static_cast<std::int64_t>(*reached));
  }
  config_.facts.longest_context = longest;
}

void ConfigReader::read_attention(std::int64_t layers) {
  std::map<ModelLayer, std::int64_t> counts;
  try {
    if (has_encoder(fields_)) throw NotUnderstood{"attention between an encoder and a decoder has no kernel"};
    for (const ModelLayer& layer : attention_of_layers(fields_, family_, layers))
      if (!layer.kind.empty()) ++counts[layer];
    if (counts.size() > kMostKinds) throw NotUnderstood{"their attention is of too many kinds"};
    for (const auto& [layer, count] : counts) add_attention(layer, count);
  } catch (const NotUnderstood& not_understood) {
    note("decode and prefill of " + std::to_string(layers) + " layers: " + not_understood.why);
    config_.facts.attention.clear();
  }
}

void ConfigReader::add_attention(ModelLayer layer, std::int64_t count) {
  const std::string layers = std::to_string(count) + " layers";
  const bool slides = layer.kind == kSlidingAttention, is_chunked = layer.kind == kChunkedAttention && layer.window > 0;
  if (layer.kind != kFullAttention && !slides && !is_chunked)
    return note(layers + " of " + layer.kind + " have no kernel");
  if (layer.latent > 0) return add_latent(layer, count);
  if (slides && !fields_.find(Fact::window))
    return note("decode and prefill of " + layers + ": sliding_window does not say how much they see");
  if (layer.head_dim == 0) {
    const std::int64_t hidden = fields_.needed(Fact::hidden);
    if (hidden % layer.q_heads != 0)
      return note("decode and prefill of " + layers +
                  ": head_dim is missing, and hidden_size is no multiple of the heads");
    layer.head_dim = hidden / layer.q_heads;
  }
  if (layer.value_dim > 0 && layer.value_dim != layer.head_dim)
    return note("decode and prefill of " + layers + ": keys of " + std::to_string(layer.head_dim) +
                " elements and values of " + std::to_string(layer.value_dim) + " have no kernel");
  const std::int64_t longest = config_.facts.longest_context;
  const bool sees_all = longest > 0 && layer.window >= longest;
  const AttentionLayers served{.q_heads = layer.q_heads,
                               .kv_heads = layer.kv_heads,
                               .head_dim = layer.head_dim,
                               .window = slides && !sees_all ? layer.window : 0,
                               .chunk = is_chunked && !sees_all ? layer.window : 0,
                               .softcap = layer.softcap,
                               .sinks = layer.sinks};
  add_layers(served, count);
}

void ConfigReader::add_latent(const ModelLayer& layer, std::int64_t count) {
  const std::string layers = std::to_string(count) + " layers: attention over a compressed latent (MLA) ";
  if (layer.kind != kFullAttention || layer.sinks || layer.latent != 512 || fields_.number("qk_rope_head_dim") != 64)
    return note("decode and prefill of " + layers + "has a kernel for kv_lora_rank 512 and qk_rope_head_dim 64 alone");
  note("prefill of " + layers + "has no kernel");
  const std::int64_t chosen = fields_.number("index_topk").value_or(0);
  add_layers({.q_heads = layer.q_heads, .kv_heads = 1, .latent = true, .chosen = chosen}, count);
}

void ConfigReader::add_layers(AttentionLayers layers, std::int64_t count) {
  for (AttentionLayers& other : config_.facts.attention) {
    layers.layers = other.layers;
    if (other == layers) {
      other.layers += count;
      return;
    }
  }
  layers.layers = count;
  config_.facts.attention.push_back(layers);
}

void ConfigReader::read_small() {
  for (const ModelFields* place : {&root_, &fields_}) {
    for (const std::string key : {"compression_config", "quantization", "quantization_config"}) {
      const auto found = place->find(key);
      if (!found || found->value().empty()) continue;
      const auto method = place->find(key + ".quant_method");
      config_.facts.quantization =
          method && method->value().is_string() ? shortened(method->text(), kLongestType) : "of its own";
    }
  }
  const SmallMath* const small = find_small_math(type_);
  const std::optional<std::int64_t> hidden = fields_.number(Fact::hidden, 1);
  if (small == nullptr || !hidden) return;
  const bool biased =
      small->bias_field.empty() ? small->biased : fields_.flag(small->bias_field).value_or(small->biased);
  config_.facts.small = {.hidden = *hidden,
                         .turns_halves = small->turns_halves,
                         .head_norms = small->head_norms,
                         .qkv_bias = biased,
                         .out_bias = biased && small->out_as_qkv,
                         .router_bias = small->router_biased,
                         .vocabulary = fields_.number("vocab_size", 1).value_or(0)};
}

std::filesystem::path file_of_model(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return path;
  for (const char* name : {"config.json", "params.json"})
    if (std::filesystem::exists(path / name, ignored)) return path / name;
  throw BadInput(path.string() + " holds neither config.json nor params.json");
}

}  // namespace

ModelConfig read_model_config(const std::filesystem::path& path) {
  const std::filesystem::path file = file_of_model(path);
  return parse_model_config(read_regular_file(file, kMostConfigBytes), file.string());
}

ModelConfig parse_model_config(std::string text, const std::string& file) {
  const LocatedJson json(without_odd_numbers(text), file);
  try {
    return ConfigReader(json).read();
  } catch (const NotUnderstood& not_understood) {  // of what the whole model depends on
    throw BadInput(file + ": " + not_understood.why);
  }
}

}  // namespace moetune
