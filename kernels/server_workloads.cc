#include "kernels/server_workloads.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/suggest.h"

namespace moetune {
namespace {

// A server's layers, beside what they open.
struct Server {
  std::string_view name;
  std::int64_t page = 0;             // tokens a KV page; 0: contiguous KV, and no other
  bool splits = true;                // a model may lie on several GPUs
  bool narrow_kv = false;            // keys and values may be in e4m3
  bool verifies = false;             // drafts are verified by decode_attention
  bool spreads_over_all = false;     // experts are spread over all of its GPUs or over none
  bool attends_whole = true;         // attention is served in all layers or in none
  bool has_clamped_experts = false;  // gpt-oss' experts are served, too
  bool is_fused = false;             // projections of q, k and v are read, which must not be quantized then
  bool keeps_type = false;           // activations are of the type that the model names
};

constexpr auto kServers = std::to_array<Server>({
    {.name = "vllm", .page = 64, .narrow_kv = true, .verifies = true, .spreads_over_all = true, .attends_whole = false},
    {.name = "sglang", .page = 64},
    {.name = "transformers", .splits = false, .has_clamped_experts = true, .is_fused = true, .keeps_type = true},
});

// The layers that a row is of.
enum class Of {
  attention,
  sliding,   // attention with a window
  verified,  // attention of what was drafted
  experts,
  norms,
  head_norms,  // of query and key heads, if `heads` is not served
  heads,       // what turns query and key heads
  joined,      // the product for q, k and v, if `heads` is served
  apart,       // these products, if it is not
  outputs,     // the product behind attention
  routers,
  choice,  // of experts by their logits
  gates,   // both at once, of few tokens
  head
};

struct ServerRow {
  std::string_view servers;  // with blanks between
  Of of;
  std::string_view kernel;
  std::string_view problem;  // NAME={FACT}, left out if the fact is empty; or NAME=VALUE
  std::string_view ranges;   // DIMENSION={RANGE}
  double share = 1;          // launches a step for each layer; a prompt runs once for many steps
};

constexpr std::string_view
    kPagesOfHeads =
        "q_heads={q_heads},kv_heads={kv_heads},head_dim={head_dim},page={page},layout=hnd,dtype={dtype},"
        "kv_dtype={kv},window={window},sinks={sinks},softcap={softcap},q_len={verified}",
    kPagesOfTokens =
        "q_heads={q_heads},kv_heads={kv_heads},head_dim={head_dim},page={page},layout=nhd,dtype={dtype},"
        "window={window},sinks={sinks},softcap={softcap}",
    kContiguous =
        "q_heads={q_heads},kv_heads={kv_heads},head_dim={head_dim},page=0,layout=hnd,dtype={dtype},sinks={sinks},"
        "softcap={softcap}",
    kContiguousWindow =
        "q_heads={q_heads},kv_heads={kv_heads},head_dim={head_dim},page=0,layout=hnd,dtype={dtype},sinks={sinks},"
        "softcap={softcap},window={window}",
    kExperts =
        "hidden={hidden},experts={experts},top_k={top_k},intermediate={intermediate},dtype={dtype},"
        "activation={activation},layout={layout}",
    kSteps = "batch={batch},context={context}", kPrompts = "batch={prompts},seqlen_q={chunk},seqlen_kv={past}",
    kTokens = "tokens={tokens}", kStepTokens = "tokens={batch}", kFewTokens = "tokens={few}",
    kHeads =
        "q_heads={q_heads},kv_heads={kv_heads},head_dim={head_dim},rotary_dim={head_dim},dtype={element},"
        "tables={table},norm={norm}",
    kHeadsToCache =
        "q_heads={q_heads},kv_heads={kv_heads},head_dim={head_dim},rotary_dim={head_dim},dtype={element},"
        "tables={table},norm={norm},kv=pages,page=1,kv_dtype={element}";

// docs/workloads.md says in which version of a server each was read.
constexpr auto kRows = std::to_array<ServerRow>({
    {"vllm", Of::attention, "decode_attention", kPagesOfHeads, kSteps},
    {"vllm", Of::verified, "decode_attention", kPagesOfHeads, kSteps},
    {"vllm", Of::attention, "prefill_attention", kPagesOfHeads, kPrompts, 0.25},
    {"sglang", Of::attention, "decode_attention", kPagesOfTokens, kSteps},
    {"sglang", Of::attention, "prefill_attention", kPagesOfTokens, kPrompts, 0.25},
    {"vllm", Of::experts, "route_plan", "experts={experts},top_k={top_k},ids=i32,map={map},align=1", kTokens},
    {"sglang", Of::experts, "route_plan", "experts={experts},top_k={top_k},ids=i32,align=1", kTokens},
    {"vllm sglang", Of::experts, "moe_experts", kExperts, kTokens},

    // A cache that holds no more than a window needs none.
    {"transformers", Of::attention, "decode_attention", kContiguous, kSteps},
    {"transformers", Of::sliding, "decode_attention", kContiguousWindow, kSteps},
    {"transformers", Of::attention, "prefill_attention", kContiguous, kPrompts, 0.25},
    {"transformers", Of::sliding, "prefill_attention", kContiguousWindow, kPrompts, 0.25},
    {"transformers", Of::experts, "route_plan", "experts={experts},top_k={top_k},ids=i64,align=1", kTokens},
    {"transformers", Of::experts, "moe_experts", kExperts, kTokens},
    {"transformers", Of::norms, "add_rmsnorm", "hidden={hidden},dtype={element},out={element}", kTokens, 2},
    {"transformers", Of::head_norms, "add_rmsnorm", "hidden={head_dim},dtype={element},out={element}", kTokens, 2},
    {"transformers", Of::heads, "qk_norm_rope", kHeads, kTokens},
    {"transformers", Of::heads, "qk_norm_rope", kHeadsToCache, kStepTokens, 0.25},
    {"transformers", Of::joined, "few_rows_linear", "in={hidden},out={qkv},dtype={element},bias={qkv_bias}",
     kFewTokens},
    {"transformers", Of::apart, "few_rows_linear", "in={hidden},out={q},dtype={element},bias={qkv_bias}", kFewTokens},
    {"transformers", Of::apart, "few_rows_linear", "in={hidden},out={keys},dtype={element},bias={qkv_bias}", kFewTokens,
     2},
    {"transformers", Of::outputs, "few_rows_linear", "in={q},out={hidden},dtype={element},bias={out_bias}", kFewTokens},
    {"transformers", Of::routers, "few_rows_linear", "in={hidden},out={experts},dtype={element},bias={router_bias}",
     kFewTokens},
    {"transformers", Of::choice, "router",
     "experts={experts},top_k={top_k},score={score},renormalize={renormalize},dtype={dtype},outputs=weights,ids=i64",
     kTokens},
    {"transformers", Of::gates, "gate_route",
     "hidden={hidden},experts={experts},top_k={top_k},score={score},renormalize={renormalize},dtype={element},"
     "logits={element},gate_bias={router_bias},ids=i64",
     "tokens={gated}"},
    {"transformers", Of::head, "few_rows_linear", "in={hidden},out={vocabulary},dtype={element}", kFewTokens},
});

constexpr std::int64_t kMostPrompts = 64, kMostChunk = 8192;  // of one call for all prompts of a step
constexpr std::int64_t kMostFewRows = 16, kMostGated = 64;    // gate_route serves from one row more on

using Texts = std::map<std::string_view, std::string>;

// Calls use(name, value, is_fact) for each NAME=VALUE or NAME={FACT} of a row.
template <typename Use>
void each_of(std::string_view list, const Use& use) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    const std::string_view name = item.substr(0, equals), value = item.substr(equals + 1);
    const bool is_fact = value.starts_with('{');
    use(name, is_fact ? value.substr(1, value.size() - 2) : value, is_fact);
  }
}

std::string filled(std::string_view pattern, const Texts& facts) {
  std::string text;
  each_of(pattern, [&](std::string_view name, std::string_view value, bool is_fact) {
    const std::string_view known = is_fact ? std::string_view(facts.at(value)) : value;
    if (!known.empty()) text.append(text.empty() ? "" : ",").append(name).append("=").append(known);
  });
  return text;
}

bool lists_server(std::string_view servers, std::string_view server) {
  return (" " + std::string(servers) + " ").find(" " + std::string(server) + " ") != std::string::npos;
}

class ServerPlanner {
 public:
  ServerPlanner(const Server& server, const ModelFacts& model, const ServerShape& shape)
      : server_(server), model_(model), shape_(shape), serving_(within_model(model, shape.serving, plan_)) {}

  ModelPlan plan() {
    const bool attends = add_attention();
    add_experts();
    add_small(attends);
    return std::move(plan_);
  }

 private:
  void note(std::string sentence) { plan_.notes.push_back(std::move(sentence)); }
  std::string server_text() const { return std::string(server_.name); }

  // The rows of one kind, for one group of equal layers. Returns whether the kernels take all of them.
  bool add_rows(Of of, const Texts& facts, std::int64_t layers);
  void set_ranges(std::int64_t longest);
  Texts attention_facts(const AttentionLayers& layers) const;
  bool add_attention();
  void add_experts();
  std::string why_own_experts() const;
  // GPUs that share one expert: experts are spread over `ep` groups of the `tp` GPUs.
  std::int64_t cuts_of_expert() const { return serving_.tensor_parallel / serving_.expert_parallel; }
  bool has_option(const char* name) const { return model_.experts.product_options.find(name) != std::string::npos; }
  bool is_clamped() const { return has_option("swigluoai"); }
  void add_small(bool attends);
  void add_products(bool turns);

  const Server& server_;
  const ModelFacts& model_;
  const ServerShape& shape_;
  ModelPlan plan_;
  const ServingShape serving_;
  std::map<std::string_view, DimensionRange> ranges_;
};

bool ServerPlanner::add_rows(Of of, const Texts& facts, std::int64_t layers) {
  bool all = true;
  for (const ServerRow& row : kRows) {
    if (row.of != of || !lists_server(row.servers, server_.name)) continue;
    ModelWorkload workload{.name = model_.name + " " + std::string(row.kernel),
                           .kernel = std::string(row.kernel),
                           .problem = filled(row.problem, facts),
                           .weight = row.share * static_cast<double>(layers)};
    each_of(row.ranges, [&](std::string_view dimension, std::string_view range, bool) {
      workload.ranges.push_back(ranges_.at(range));
      workload.ranges.back().name = dimension;
    });
    all = add_workload(plan_, std::move(workload), layers) && all;
  }
  return all;
}

void ServerPlanner::set_ranges(std::int64_t longest) {
  longest = std::min(longest, serving_.context_high);
  const std::int64_t shortest = std::min(serving_.context_low, longest);
  const std::int64_t chunk = std::min({longest, shape_.most_tokens, kMostChunk});
  ranges_ = {
      {"batch", {"", serving_.batch_low, serving_.batch_high}},
      {"context", {"", shortest, longest}},
      {"prompts", {"", serving_.batch_low, std::max(serving_.batch_low, std::min(serving_.batch_high, kMostPrompts))}},
      {"chunk", {"", 1, chunk}},
      {"past", {"", std::min(shortest, chunk), chunk}},
      {"few", {"", serving_.batch_low, std::min(serving_.batch_high, kMostFewRows)}},
      {"gated", {"", std::max(serving_.batch_low, kMostFewRows + 1), std::min(serving_.batch_high, kMostGated)}},
      {"tokens", {"", serving_.batch_low, std::max(serving_.batch_high, shape_.most_tokens)}}};
}

Texts ServerPlanner::attention_facts(const AttentionLayers& layers) const {
  const auto number = [](std::int64_t value) { return value > 0 ? std::to_string(value) : std::string(); };
  const bool is_half = model_.dtype == "fp16";
  const SmallOperations& small = model_.small;
  const std::int64_t q = layers.q_heads * layers.head_dim, kv = layers.kv_heads * layers.head_dim;
  return {{"q_heads", number(layers.q_heads)},
          {"kv_heads", number(layers.kv_heads)},
          {"head_dim", number(layers.head_dim)},
          {"window", number(layers.window)},
          {"sinks", layers.sinks ? "learned" : ""},
          {"softcap", number(layers.softcap)},
          {"verified", ""},
          {"page", std::to_string(shape_.page.value_or(server_.page))},
          {"dtype", model_.dtype},
          {"kv", shape_.narrow_kv ? "e4m3" : ""},
          {"element", is_half ? "f16" : ""},
          {"table", is_half ? "f16" : "bf16"},
          {"norm", small.head_norms ? "" : "no"},
          {"hidden", number(small.hidden)},
          {"q", number(q)},
          {"keys", number(kv)},
          {"qkv", number(q + 2 * kv)},
          {"experts", number(model_.experts.experts)},
          {"top_k", number(model_.experts.top_k)},
          {"score", model_.experts.score},
          {"renormalize", model_.experts.renormalize ? "" : "no"},
          {"vocabulary", number(small.vocabulary)},
          {"qkv_bias", small.qkv_bias ? "yes" : ""},
          {"out_bias", small.out_bias ? "yes" : ""},
          {"router_bias", small.router_bias ? "yes" : ""}};
}

bool ServerPlanner::add_attention() {
  std::int64_t understood = 0;
  bool all = true, any_chunk = false;
  for (const AttentionLayers& whole : model_.attention) {
    understood += whole.layers;
    any_chunk = any_chunk || whole.chunk > 0;
  }
  if (server_.attends_whole && (understood < model_.layers || any_chunk)) {
    note("attention: " + server_text() + " serves it in all layers or in none, and " +
         std::to_string(any_chunk ? 0 : understood) + " of " + std::to_string(model_.layers) + " are understood");
    return false;
  }
  const std::size_t before = plan_.workloads.size();
  for (const AttentionLayers& whole : model_.attention) {
    const AttentionLayers layers = heads_of_rank(whole, serving_.tensor_parallel);
    set_ranges(layers.chunk > 0 ? layers.chunk : serving_.context_high);
    Texts facts = attention_facts(layers);
    all = add_rows(Of::attention, facts, layers.layers) && all;
    if (layers.window > 0) all = add_rows(Of::sliding, facts, layers.layers) && all;
    if (shape_.drafts == 0) continue;
    facts["verified"] = std::to_string(1 + shape_.drafts);
    all = add_rows(Of::verified, facts, layers.layers) && all;
  }
  if (all || !server_.attends_whole) return !model_.attention.empty();
  plan_.workloads.resize(before);
  return false;
}

// "" if moe_experts serves them.
std::string ServerPlanner::why_own_experts() const {
  const ExpertLayers& experts = model_.experts;
  if (experts.intermediate == 0) return experts.why_no_products;
  if (experts.zero_experts > 0) return "some of them give a token back";
  if (has_option(",w=")) return "quantized ones (" + model_.quantization + ") are left to " + server_text();
  if (is_clamped() && !server_.has_clamped_experts)
    return "those with gpt-oss' activation are left to " + server_text();
  if (const std::int64_t cuts = cuts_of_expert(); experts.intermediate % cuts != 0)
    return std::to_string(cuts) + " GPUs do not divide an expert's " + std::to_string(experts.intermediate) + " values";
  return "";
}

void ServerPlanner::add_experts() {
  const ExpertLayers& experts = model_.experts;
  if (experts.layers == 0) return;
  const std::int64_t ranks = serving_.expert_parallel;
  require_divided_experts(experts, ranks);
  if (const std::string why = why_own_experts(); !why.empty()) return note("moe_experts: " + why);
  set_ranges(serving_.context_high);
  const std::int64_t intermediate = experts.intermediate / cuts_of_expert();
  add_rows(Of::experts,
           {{"experts", std::to_string(experts.experts / ranks)},
            {"top_k", std::to_string(experts.top_k)},
            {"hidden", std::to_string(experts.hidden)},
            {"intermediate", std::to_string(intermediate)},
            {"dtype", model_.dtype},
            {"activation", is_clamped() ? "swigluoai" : ""},
            {"layout", has_option("n_major") ? "n_major" : ""},
            {"map", ranks > 1 ? "local" : ""}},
           experts.layers);
}

// Norms, and what lies between projections and cache. `attends`: the model's attention is served.
void ServerPlanner::add_small(bool attends) {
  const auto opens = [&](const ServerRow& row) {
    return row.of == Of::norms && lists_server(row.servers, server_.name);
  };
  if (std::none_of(kRows.begin(), kRows.end(), opens)) return;
  if (model_.small.hidden == 0)
    return note("add_rmsnorm, qk_norm_rope: what lies between the products of this model is not known");
  set_ranges(serving_.context_high);
  // In mxfp4 are experts alone.
  const bool plain = !server_.is_fused || model_.quantization.empty() || model_.quantization == "mxfp4";
  if (!plain)
    note("qk_norm_rope: what follows quantized projections (" + model_.quantization + ") is left to " + server_text());
  const bool turns = attends && plain && model_.small.turns_halves;
  for (const AttentionLayers& layers : model_.attention) {
    if (turns) add_rows(Of::heads, attention_facts(layers), layers.layers);
    if (!turns && model_.small.head_norms) add_rows(Of::head_norms, attention_facts(layers), layers.layers);
  }
  add_rows(Of::norms, attention_facts({}), model_.layers);
  const std::int64_t routers = model_.experts.layers - model_.experts.unrouted_layers;
  if (routers > 0) add_rows(Of::choice, attention_facts({}), routers);
  if (routers > 0 && serving_.batch_low <= kMostGated && serving_.batch_high > kMostFewRows)
    add_rows(Of::gates, attention_facts({}), routers);
  if (plain && serving_.batch_low <= kMostFewRows) add_products(turns);
}

void ServerPlanner::add_products(bool turns) {
  for (const AttentionLayers& layers : model_.attention) {
    add_rows(turns ? Of::joined : Of::apart, attention_facts(layers), layers.layers);
    add_rows(Of::outputs, attention_facts(layers), layers.layers);
  }
  const std::int64_t routers = model_.experts.layers - model_.experts.unrouted_layers;
  if (routers > 0) add_rows(Of::routers, attention_facts({}), routers);
  if (model_.small.vocabulary > 0) add_rows(Of::head, attention_facts({}), 1);
}

const Server& named_server(const std::string& name) {
  for (const Server& server : kServers)
    if (server.name == name) return server;
  throw BadField("server", unknown_name("server", name, server_names()));
}

void require_taken(bool is_taken, const char* field, const Server& server, const char* what) {
  if (!is_taken) throw BadField(field, std::string(server.name) + " " + what);
}

}  // namespace

std::vector<std::string> server_names() {
  std::vector<std::string> names;
  for (const Server& server : kServers) names.emplace_back(server.name);
  return names;
}

ModelPlan plan_server(const ModelFacts& model, const ServerShape& shape) {
  const Server& server = named_server(shape.server);
  require_taken(server.splits || shape.serving.tensor_parallel == 1, "tp", server, "runs a model on one GPU here");
  require_taken(server.splits || shape.serving.expert_parallel == 1, "ep", server, "runs a model on one GPU here");
  require_taken(!shape.page || (server.page > 0) == (*shape.page > 0), "page", server,
                server.page > 0 ? "has pages of at least 1 token" : "has no pages");
  require_taken(server.narrow_kv || !shape.narrow_kv, "kv", server, "keeps keys and values in the model's type");
  require_taken(server.verifies || shape.drafts == 0, "drafts", server, "verifies drafts by attention of its own");
  const std::int64_t gpus = shape.serving.tensor_parallel, ranks = shape.serving.expert_parallel;
  require_taken(ranks >= 1 && gpus % ranks == 0, "ep", server,
                "spreads experts over its --tp GPUs: --ep must divide --tp");
  require_taken(!server.spreads_over_all || ranks == 1 || ranks == gpus, "ep", server,
                "spreads experts over all of its GPUs: --ep must be 1 or as --tp");
  if (server.keeps_type && !model.unserved_dtype.empty())
    return {.workloads = {}, .notes = {"the model is in " + model.unserved_dtype + "; bf16 and fp16 are served"}};
  ModelFacts served = model;
  std::int64_t latent = 0;
  for (const AttentionLayers& layers : model.attention) latent += layers.latent ? layers.layers : 0;
  std::erase_if(served.attention, [](const AttentionLayers& layers) { return layers.latent; });
  ModelPlan plan = ServerPlanner(server, served, shape).plan();
  if (latent > 0)
    plan.notes.push_back("decode of " + std::to_string(latent) + " layers: " + shape.server +
                         " does not call mla_decode");
  return plan;
}

}  // namespace moetune
