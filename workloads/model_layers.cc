#include "workloads/model_layers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "workloads/layer_rules.h"

namespace moetune {
namespace {

// Heads of one kind of layer, where they differ from the others'.
struct KindField {
  std::string_view path;
  std::string_view kind;
  std::int64_t ModelLayer::*value;
};
constexpr auto kKindFields = std::to_array<KindField>({
    {"swa_num_attention_heads", "sliding_attention", &ModelLayer::q_heads},
    {"num_sliding_attention_heads", "sliding_attention", &ModelLayer::q_heads},
    {"attention_other_setting.num_attention_heads", "sliding_attention", &ModelLayer::q_heads},
    {"swa_num_key_value_heads", "sliding_attention", &ModelLayer::kv_heads},
    {"attention_other_setting.num_attention_groups", "sliding_attention", &ModelLayer::kv_heads},
    {"swa_head_dim", "sliding_attention", &ModelLayer::head_dim},
    {"attention_other_setting.head_dim", "sliding_attention", &ModelLayer::head_dim},
    {"swa_v_head_dim", "sliding_attention", &ModelLayer::value_dim},
    {"swa_kv_lora_rank", "sliding_attention", &ModelLayer::latent},
    {"global_head_dim", "full_attention", &ModelLayer::head_dim},
    {"num_global_key_value_heads", "full_attention", &ModelLayer::kv_heads},
});

// Those of a single layer, in per_layer_config.
struct LayerField {
  std::string_view key;
  std::int64_t ModelLayer::*value;
};
constexpr auto kLayerFields = std::to_array<LayerField>({{"num_attention_heads", &ModelLayer::q_heads},
                                                         {"num_key_value_heads", &ModelLayer::kv_heads},
                                                         {"head_dim", &ModelLayer::head_dim},
                                                         {"v_head_dim", &ModelLayer::value_dim},
                                                         {"kv_lora_rank", &ModelLayer::latent},
                                                         {"sliding_window", &ModelLayer::window}});

// Attention that the kernels do not compute, whatever its kind.
struct OddAttention {
  std::string_view path, what;
};
constexpr auto kOddAttention = std::to_array<OddAttention>({
    {"alibi", "attention with a bias by distance"},
    {"attn_config.alibi", "attention with a bias by distance"},
    {"use_bidirectional_attention", "attention to tokens behind a token"},
    {"multi_query", "attention whose queries may share one KV head"},
    {"dual_chunk_attention_config", "attention in dual chunks"},
    {"sparse_config", "attention that chooses its tokens"},
});

bool is_said(const ModelFields& fields, std::string_view path) {
  const std::optional<JsonPlace> found = fields.find(path);
  return found && found->value() != false && found->value() != 0;
}

void refuse_odd_attention(const ModelFields& fields, const ModelFamily* family) {
  const std::string no_kernel = " has no kernel";
  if (family != nullptr && !family->attention.empty()) throw NotUnderstood{std::string(family->attention) + no_kernel};
  for (const OddAttention& odd : kOddAttention)
    if (is_said(fields, odd.path))
      throw NotUnderstood{std::string(odd.what) + " (" + std::string(odd.path) + ")" + no_kernel};
  if (fields.flag("is_causal") == false)
    throw NotUnderstood{"attention to tokens behind a token (is_causal)" + no_kernel};
}

void set_heads(std::vector<ModelLayer>& all, const ModelFields& fields) {
  const auto layers = static_cast<std::int64_t>(all.size());
  const auto set = [&](Fact fact, std::int64_t ModelLayer::*value, std::int64_t least = 0) {
    if (const auto each = fields.of_layers(fact, layers, least))
      for (std::size_t l = 0; l < all.size(); ++l) all[l].*value = (*each)[l];
  };
  set(Fact::q_heads, &ModelLayer::q_heads, 1);
  set(Fact::kv_heads, &ModelLayer::kv_heads, 1);
  for (const auto& [path, value] : {std::pair("num_attention_heads_per_layer", &ModelLayer::q_heads),
                                    {"num_key_value_heads_per_layer", &ModelLayer::kv_heads}}) {
    const auto each = fields.find(path);
    if (!each) continue;
    const std::vector<JsonPlace> list = fields.layer_list(*each, layers);
    for (std::size_t l = 0; l < all.size(); ++l) all[l].*value = list[l].integer(1, kMostModelExtent);
  }
  if (all.front().q_heads == 0) fields.needed(Fact::q_heads);
  set(Fact::head_dim, &ModelLayer::head_dim);
  set(Fact::value_dim, &ModelLayer::value_dim);
  set(Fact::latent, &ModelLayer::latent);
}

void set_windows(std::vector<ModelLayer>& all, const ModelFields& fields) {
  const std::vector<std::int64_t> windows = sliding_windows(fields);
  for (std::size_t l = 0; l < all.size(); ++l) {
    ModelLayer& layer = all[l];
    if (layer.kind == kSlidingAttention && !windows.empty()) layer.window = windows[l % windows.size()];
    if (layer.kind == kChunkedAttention) layer.window = fields.number("attention_chunk_size").value_or(0);
  }
}

// Sets the fields that differ from kind to kind, and from layer to layer.
void set_exceptions(std::vector<ModelLayer>& all, const ModelFields& fields) {
  const bool has_own_kv_heads = fields.flag("attention_k_eq_v") != false;
  for (const KindField& one : kKindFields) {
    if (one.path == "num_global_key_value_heads" && !has_own_kv_heads) continue;
    const auto value = fields.number(one.path);
    for (ModelLayer& layer : all)
      if (value && layer.kind == one.kind) layer.*one.value = *value;
  }
  const auto each = fields.find("per_layer_config");
  if (!each) return;
  for (const auto& [key, place] : each->members(kMostModelLayers)) {
    const bool is_number = !key.empty() && key.size() < 6 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number || std::stoull(key) >= all.size()) place.fail("is no layer of the model");
    const ModelFields own(place);
    for (const LayerField& one : kLayerFields)
      if (const auto value = own.number(one.key)) all[std::stoull(key)].*one.value = *value;
  }
}

void set_softcap(std::vector<ModelLayer>& all, const ModelFields& fields) {
  for (const char* const path : {"attn_logit_softcapping", "attn_config.softcap"}) {
    if (!is_said(fields, path)) continue;
    const JsonPlace found = *fields.find(path);
    const double cap = found.value().is_number() ? found.value().get<double>() : 0;
    if (cap != std::floor(cap) || cap < 1 || cap > static_cast<double>(kMostModelExtent))
      throw NotUnderstood{std::string("attention with a cap on its logits (") + path +
                          ") that is no whole number has no kernel"};
    for (ModelLayer& layer : all) layer.softcap = static_cast<std::int64_t>(cap);
  }
}

void set_sinks(std::vector<ModelLayer>& all, const ModelFields& fields, const ModelFamily* family) {
  const bool sliding = fields.flag("add_swa_attention_sink_bias").value_or(false),
             full = fields.flag("add_full_attention_sink_bias").value_or(false);
  for (ModelLayer& layer : all)
    layer.sinks = (family != nullptr && family->sinks) || (layer.kind == kSlidingAttention && sliding) ||
                  (layer.kind == kFullAttention && full);
}

// An encoder's or a decoder's. `second`: the second of so many layers has experts.
struct StackField {
  std::string_view layers, step;
  bool is_second;
};
constexpr auto kStacks = std::to_array<StackField>({{"encoder_layers", "encoder_sparse_step", false},
                                                    {"decoder_layers", "decoder_sparse_step", false},
                                                    {"num_layers", "encoder_sparse_step", true},
                                                    {"num_decoder_layers", "decoder_sparse_step", true}});

std::int64_t count_of_stacks(const ModelFields& fields) {
  std::int64_t count = 0;
  for (const StackField& stack : kStacks) {
    const std::int64_t layers = fields.number(stack.layers).value_or(0), step = fields.number(stack.step).value_or(0);
    if (layers > kMostModelLayers) fields.find(stack.layers)->integer(1, kMostModelLayers);
    for (std::int64_t layer = 0; layer < layers && step > 0; ++layer)
      count += stack.is_second ? step == 1 || layer % step == 1 : (layer + 1) % step == 0;
  }
  return count;
}

}  // namespace

bool has_encoder(const ModelFields& fields) {
  return fields.flag("is_encoder_decoder").value_or(false) || fields.find("encoder_sparse_step").has_value();
}

std::int64_t count_model_layers(const ModelFields& fields) {
  if (!fields.find(Fact::layers))
    if (const auto listed = layers_of_lists(fields)) return *listed;
  const std::int64_t layers = fields.needed(Fact::layers);
  if (layers > kMostModelLayers) fields.find(Fact::layers)->integer(1, kMostModelLayers);
  return layers;
}

std::vector<ModelLayer> attention_of_layers(const ModelFields& fields, const ModelFamily* family, std::int64_t layers) {
  std::vector<ModelLayer> all;
  for (std::string& kind : kinds_of_layers(fields, family, layers))
    all.emplace_back().kind = kind == kNoAttention || kind == kExpertLayer ? "" : std::move(kind);
  set_heads(all, fields);
  refuse_odd_attention(fields, family);
  set_windows(all, fields);
  set_exceptions(all, fields);
  set_sinks(all, fields, family);
  set_softcap(all, fields);
  for (ModelLayer& layer : all)
    if (layer.kv_heads == 0) layer.kv_heads = layer.q_heads;
  return all;
}

ExpertLayerCount count_expert_layers(const ModelFields& fields, std::int64_t layers) {
  if (has_encoder(fields)) return {count_of_stacks(fields), 0};
  if (const auto listed = expert_layers_listed(fields, layers)) return *listed;
  const std::vector<bool> sparse = sparse_by_steps(fields, layers);
  const auto count = static_cast<std::int64_t>(std::count(sparse.begin(), sparse.end(), true));
  return {count, std::min(count, fields.number("num_hash_layers").value_or(0))};
}

}  // namespace moetune
