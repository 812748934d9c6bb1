#include "workloads/model_config.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/located_json.h"
#include "base/utf8.h"

namespace moetune {
namespace {

constexpr std::size_t kMostConfigBytes = std::size_t{4} << 20, kLongestType = 100;
constexpr std::int64_t kMostLayers = 10'000, kMostExtent = std::int64_t{1} << 30;

// How the families that are known score their experts. Others say so themselves, or it is not known.
struct Scoring {
  std::string score, logits;
};
const std::map<std::string, Scoring, std::less<>> kScoring = {
    {"gpt_oss", {"topk_softmax", "bf16"}}, {"qwen3_moe", {"softmax", "bf16"}},
    {"qwen2_moe", {"softmax", "bf16"}},    {"qwen3_next", {"softmax", "bf16"}},
    {"mixtral", {"softmax", "bf16"}},      {"deepseek_v3", {"sigmoid", "fp32"}},
    {"kimi_k2", {"sigmoid", "fp32"}},      {"kimi_linear", {"sigmoid", "fp32"}}};
// Families without experts that are known as well.
const std::set<std::string, std::less<>> kDense = {"llama", "mistral", "qwen2", "qwen3"};
// Families whose layers mix in linear attention or state spaces even if layer_types is missing.
const std::vector<std::string> kLinear = {"qwen3_next", "kimi_linear", "mamba", "mamba2", "jamba", "minimax"};

class ConfigReader {
 public:
  explicit ConfigReader(const LocatedJson& file) : root_(file.root()), model_(root_) {
    // A model of text and images keeps its language model inside.
    if (const auto inner = root_.find("text_config")) model_ = *inner;
  }

  ModelConfig read() {
    const auto type = model_.find("model_type");
    type_ = type ? type->text() : "";
    if (type_.size() > kLongestType ||
        std::any_of(type_.begin(), type_.end(), [](char c) { return c <= ' ' || c > '~'; }))
      type->fail("must be a word of at most " + std::to_string(kLongestType) + " bytes" + type->shown());
    config_.facts.name = type_.empty() ? "model" : type_;
    if (!kScoring.contains(type_) && !kDense.contains(type_))
      note((type_.empty() ? "it names no model_type" : "the model type '" + type_ + "' is not known") +
           ": its fields are taken as they are named");
    config_.facts.dtype = dtype();
    config_.facts.longest_context = integer("max_position_embeddings", 0);
    read_layers();
    read_experts();
    return std::move(config_);
  }

 private:
  std::int64_t integer(const std::string& key, std::int64_t fallback) const {
    const auto found = model_.find(key);
    return found ? found->integer(0, kMostExtent) : fallback;
  }
  std::int64_t needed(const std::string& key) const { return model_.at(key).integer(1, kMostExtent); }
  void note(std::string sentence) { config_.notes.push_back(std::move(sentence)); }

  std::string dtype();
  std::vector<std::string> layer_types(std::int64_t layers);
  void read_layers();
  void read_attention(const std::vector<std::string>& kinds);
  void read_experts();
  std::int64_t expert_layers() const;
  void read_score(ExpertLayers& experts);

  JsonPlace root_, model_;
  std::string type_;
  ModelConfig config_;
};

std::string ConfigReader::dtype() {
  std::optional<JsonPlace> found = model_.find("torch_dtype");
  if (!found) found = model_.find("dtype");
  if (!found) found = root_.find("torch_dtype");
  const std::string name = found ? found->text() : "bfloat16";
  if (name == "float16") return "fp16";
  if (name != "bfloat16" && name != "auto") note("activations of " + name + " are taken as bf16");
  return "bf16";
}

std::vector<std::string> ConfigReader::layer_types(std::int64_t layers) {
  std::vector<std::string> kinds;
  if (const auto listed = model_.find("layer_types")) {
    for (const JsonPlace& kind : listed->elements(kMostLayers)) kinds.push_back(kind.text());
    if (static_cast<std::int64_t>(kinds.size()) != layers)
      listed->fail("has " + std::to_string(kinds.size()) + " elements; num_hidden_layers is " +
                   std::to_string(layers));
    return kinds;
  }
  const bool linear = std::find(kLinear.begin(), kLinear.end(), type_) != kLinear.end();
  const std::int64_t every = integer("full_attention_interval", linear ? 0 : 1);
  const auto use_window = model_.find("use_sliding_window");
  const bool windowed = integer("sliding_window", 0) > 0 && (!use_window || use_window->boolean());
  const std::int64_t full_first = integer("max_window_layers", 0);  // the first layers have no window
  if (windowed && model_.find("sliding_window_pattern"))
    note(
        "sliding_window_pattern is not understood: its layers without a window are taken to have one; "
        "list the kinds of all layers as layer_types");
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const bool attends = every > 0 && (layer + 1) % every == 0, has_window = windowed && layer >= full_first;
    kinds.push_back(!attends ? "linear_attention" : has_window ? "sliding_attention" : "full_attention");
  }
  return kinds;
}

void ConfigReader::read_layers() {
  const std::int64_t layers = model_.at("num_hidden_layers").integer(1, kMostLayers);
  const std::vector<std::string> kinds = layer_types(layers);
  if (integer("kv_lora_rank", 0) > 0) {
    note("decode and prefill of " + std::to_string(layers) +
         " layers: attention over a compressed latent (MLA) has no kernel");
    return;
  }
  read_attention(kinds);
}

void ConfigReader::read_attention(const std::vector<std::string>& kinds) {
  AttentionLayers heads;
  heads.q_heads = needed("num_attention_heads");
  heads.kv_heads = integer("num_key_value_heads", heads.q_heads);
  if (heads.kv_heads < 1) model_.at("num_key_value_heads").integer(1, kMostExtent);
  heads.head_dim = integer("head_dim", needed("hidden_size") / heads.q_heads);
  heads.sinks = type_ == "gpt_oss";
  std::map<std::string, std::int64_t> counts;
  for (const std::string& kind : kinds) ++counts[kind];
  for (const auto& [kind, count] : counts) {
    AttentionLayers layers = heads;
    layers.layers = count;
    if (kind == "full_attention") {
      config_.facts.attention.push_back(layers);
    } else if (kind == "sliding_attention") {
      layers.window = needed("sliding_window");
      config_.facts.attention.push_back(layers);
    } else {
      note(std::to_string(count) + " layers of " + shortened(kind, kLongestType) + " have no kernel");
    }
  }
}

// Layers that are not dense.
std::int64_t ConfigReader::expert_layers() const {
  if (const auto each = model_.find("moe_layer_freq"); each && each->value().is_array()) {
    std::int64_t sparse = 0;
    for (const JsonPlace& layer : each->elements(kMostLayers)) sparse += layer.integer(0, 1);
    return sparse;
  }
  const std::int64_t layers = model_.at("num_hidden_layers").integer(1, kMostLayers);
  std::set<std::int64_t> dense;
  if (const auto listed = model_.find("mlp_only_layers"))
    for (const JsonPlace& layer : listed->elements(kMostLayers)) dense.insert(layer.integer(0, layers - 1));
  const std::int64_t step = integer("decoder_sparse_step", 0);  // the last of so many layers is sparse
  const std::int64_t every = std::max<std::int64_t>(1, integer("moe_layer_freq", 1));  // the first of so many
  std::int64_t sparse = 0;
  for (std::int64_t layer = integer("first_k_dense_replace", 0); layer < layers; ++layer) {
    const bool has_experts = step > 0 ? (layer + 1) % step == 0 : layer % every == 0;
    sparse += has_experts && !dense.contains(layer) ? 1 : 0;
  }
  return sparse;
}

void ConfigReader::read_score(ExpertLayers& experts) {
  const auto known = kScoring.find(type_);
  if (known != kScoring.end()) {
    experts.score = known->second.score;
    experts.logits = known->second.logits;
    if (experts.logits == "bf16") experts.logits = config_.facts.dtype;  // the activations' own
  } else {
    experts.logits = config_.facts.dtype;
  }
  if (const auto scoring = model_.find("scoring_func")) {
    const std::string name = scoring->text();
    if (name != "softmax" && name != "sigmoid")
      scoring->fail("must be softmax or sigmoid (got " + name + ")");
    experts.score = name;
  }
  if (const auto method = model_.find("topk_method"); method && method->text() == "noaux_tc")
    experts.correction_bias = true;
  if (type_ == "kimi_linear") experts.correction_bias = true;
  if (const auto renormalize = model_.find("norm_topk_prob")) experts.renormalize = renormalize->boolean();
}

void ConfigReader::read_experts() {
  ExpertLayers experts;
  for (const char* key : {"num_experts", "n_routed_experts", "num_local_experts"}) {
    if (experts.experts == 0) experts.experts = integer(key, 0);
  }
  if (experts.experts <= 1) {
    note("it has no experts, and so no workload that moves tokens to them");
    return;
  }
  for (const char* key : {"num_experts_per_tok", "experts_per_token", "num_experts_per_token"}) {
    if (experts.top_k == 0) experts.top_k = integer(key, 0);
  }
  if (experts.top_k == 0) needed("num_experts_per_tok");
  experts.hidden = needed("hidden_size");
  experts.groups = std::max<std::int64_t>(1, integer("n_group", 1));
  experts.groups_kept = std::max<std::int64_t>(1, integer("topk_group", 1));
  read_score(experts);
  std::optional<JsonPlace> quantized = model_.find("quantization_config");
  if (!quantized) quantized = root_.find("quantization_config");
  if (quantized) {
    const auto method = quantized->find("quant_method");
    experts.e4m3_blocks = method && method->text() == "fp8";
  }
  experts.layers = expert_layers();
  if (experts.layers == 0)
    note("it has " + std::to_string(experts.experts) +
         " experts and no layer that uses them: no workload moves tokens to them");
  config_.facts.experts = experts;
}

}  // namespace

ModelConfig read_model_config(const std::filesystem::path& file) {
  const LocatedJson json = LocatedJson::read(file, kMostConfigBytes);
  return ConfigReader(json).read();
}

ModelConfig parse_model_config(std::string text, const std::string& file) {
  const LocatedJson json(std::move(text), file);
  return ConfigReader(json).read();
}

}  // namespace moetune
