#include "workloads/model_fields.h"

#include <algorithm>

#include "base/lists.h"

namespace moetune {
namespace {

struct FactNames {
  Fact fact;
  bool unique;  // names that a file may give at once, but not with different values
  std::vector<std::string_view> names;
};

const std::vector<FactNames>& fact_names() {
  static const std::vector<FactNames> all = {
      {Fact::layers,
       false,
       {"num_hidden_layers", "n_layers", "n_layer", "num_layers", "decoder_layers", "num_transformer_layers"}},
      {Fact::hidden, true, {"hidden_size", "d_model", "dim", "n_embd", "model_dim"}},
      {Fact::q_heads, true, {"num_attention_heads", "n_heads", "n_head", "num_heads", "num_query_heads"}},
      {Fact::kv_heads,
       true,
       {"num_key_value_heads", "n_kv_heads", "num_kv_heads", "num_attention_groups", "attn_config.kv_n_heads",
        "multi_query_group_num"}},
      {Fact::head_dim, true, {"head_dim", "kv_channels", "attention_head_dim"}},
      {Fact::value_dim, true, {"v_head_dim"}},
      {Fact::latent, true, {"kv_lora_rank", "attention_kv_lora_dim"}},
      {Fact::context,
       false,
       {"max_position_embeddings", "max_seq_len", "model_max_length", "max_position_embedding", "max_sequence_length",
        "n_positions", "seq_length", "max_context_length"}},
      {Fact::window, false, {"sliding_window", "sliding_window_size"}},
      {Fact::experts,
       true,
       {"num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", "num_routed_experts",
        "moe.num_experts", "ffn_config.moe_num_experts"}},
      {Fact::zero_experts, true, {"zero_expert_num"}},
      {Fact::top_k,
       true,
       {"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "moe_top_k", "moe_k",
        "top_k_experts", "num_selected_experts", "moe.num_experts_per_tok", "ffn_config.moe_top_k"}},
      {Fact::groups, true, {"n_group", "num_expert_group", "n_expert_groups", "moe.num_expert_groups"}},
      {Fact::groups_kept,
       true,
       {"topk_group", "n_limited_groups", "moe.num_expert_groups_per_tok", "num_limited_groups"}},
      {Fact::expert_width, true, {"moe_intermediate_size", "expert_ffn_hidden_size"}},
      {Fact::width, true, {"intermediate_size"}},
      {Fact::activation, true, {"hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act"}},
      {Fact::moved, true, {"moe_latent_size", "moe_hidden_size"}},
      {Fact::scoring,
       true,
       {"scoring_func", "score_function", "score_func", "moe_router_activation_func", "moe_router_activation",
        "expert_selection_fn", "router_score_function", "moe_router_score_function"}},
      {Fact::logits, true, {"router_dtype", "moe_router_dtype"}},
      {Fact::renormalize,
       true,
       {"norm_topk_prob", "moe_renormalize", "norm_expert_weight", "route_norm",
        "ffn_config.moe_normalize_expert_weights"}},
      {Fact::bias,
       true,
       {"use_routing_bias", "moe_router_enable_expert_bias", "use_expert_bias", "moe_use_aux_free",
        "use_moe_router_bias", "router_bias_correction"}},
      {Fact::uses_experts, true, {"enable_moe_block", "is_moe"}},
      {Fact::first_sparse,
       true,
       {"first_k_dense_replace", "num_dense_layers", "moe_layer_start_index", "moe_layer_num_skipped", "dense_mlp_idx",
        "n_dense_layers", "moe.first_k_dense_replace"}},
      {Fact::last_sparse, true, {"moe_layer_end_index"}}};
  return all;
}

const FactNames& names_of(Fact fact) {
  const auto found = std::ranges::find(fact_names(), fact, &FactNames::fact);
  return *found;
}

bool counts_as_absent(const nlohmann::json& value) { return value.is_null() || (value.is_array() && value.empty()); }

}  // namespace

bool is_fact_name(std::string_view name) {
  return std::any_of(fact_names().begin(), fact_names().end(), [&](const FactNames& one) {
    return std::find(one.names.begin(), one.names.end(), name) != one.names.end();
  });
}

std::optional<JsonPlace> ModelFields::find(std::string_view path) const {
  std::optional<JsonPlace> place = object_;
  while (place && !path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    if (!place->value().is_object()) return std::nullopt;
    place = place->find(std::string(path.substr(0, dot)));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return place && !counts_as_absent(place->value()) ? place : std::nullopt;
}

std::optional<JsonPlace> ModelFields::find(Fact fact) const {
  const FactNames& names = names_of(fact);
  std::optional<JsonPlace> first;
  std::string_view first_name;
  for (const std::string_view name : names.names) {
    std::optional<JsonPlace> found = find(name);
    if (!found) continue;
    if (!first) {
      first = std::move(found);
      first_name = name;
      if (!names.unique) break;
    } else if (found->value() != first->value()) {
      throw NotUnderstood{std::string(first_name) + " and " + std::string(name) +
                          " are names of one thing and have different values"};
    }
  }
  return first;
}

std::optional<std::int64_t> ModelFields::number(std::string_view path, std::int64_t least) const {
  const std::optional<JsonPlace> found = find(path);
  if (!found) return std::nullopt;
  if (!found->value().is_array()) return found->integer(least, kMostModelExtent);
  std::optional<std::int64_t> all;
  for (const JsonPlace& one : found->elements(kMostModelLayers)) {
    const std::int64_t value = one.integer(least, kMostModelExtent);
    if (all && *all != value) throw NotUnderstood{std::string(path) + " is not the same number for every layer"};
    all = value;
  }
  return all;
}

std::optional<std::int64_t> ModelFields::number(Fact fact, std::int64_t least) const {
  if (!find(fact)) return std::nullopt;
  for (const std::string_view name : names_of(fact).names)
    if (const auto value = number(name, least)) return value;
  return std::nullopt;
}

std::int64_t ModelFields::needed(Fact fact) const {
  if (const auto value = number(fact, 1)) return *value;
  return object_.at(std::string(names_of(fact).names.front())).integer(1, kMostModelExtent);
}

std::optional<std::vector<std::int64_t>> ModelFields::of_layers(Fact fact, std::int64_t layers,
                                                                std::int64_t least) const {
  const std::optional<JsonPlace> found = find(fact);
  if (!found) return std::nullopt;
  if (!found->value().is_array())
    return std::vector<std::int64_t>(static_cast<std::size_t>(layers), found->integer(least, kMostModelExtent));
  const auto value = [&](const JsonPlace& one) { return one.integer(least, kMostModelExtent); };
  return gathered(layer_list(*found, layers), value);
}

std::vector<JsonPlace> ModelFields::layer_list(const JsonPlace& list, std::int64_t layers) const {
  std::vector<JsonPlace> all = list.elements(kMostModelLayers);
  const auto size = static_cast<std::int64_t>(all.size());
  const std::int64_t ahead = number("num_nextn_predict_layers").value_or(0);
  if (size != layers && size != layers + ahead)
    list.fail("has " + std::to_string(size) + " elements; num_hidden_layers is " + std::to_string(layers));
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(layers), all.end());
  return all;
}

std::optional<std::string> ModelFields::text(Fact fact) const {
  const std::optional<JsonPlace> found = find(fact);
  return found ? std::optional(found->text()) : std::nullopt;
}

std::optional<bool> ModelFields::flag(std::string_view path) const {
  const std::optional<JsonPlace> found = find(path);
  if (!found) return std::nullopt;
  if (!found->value().is_number()) return found->boolean();
  const auto number = found->value().get<double>();
  if (number != 0 && number != 1)
    throw NotUnderstood{std::string(path) + " is neither true nor false" + found->shown()};
  return number == 1;
}

std::optional<bool> ModelFields::flag(Fact fact) const {
  if (!find(fact)) return std::nullopt;
  for (const std::string_view name : names_of(fact).names)
    if (const auto value = flag(name)) return value;
  return std::nullopt;
}

}  // namespace moetune
