// The one list of the operators' arguments, which torch.ops.moetune's schemas are made of.
#include <algorithm>
#include <cstdlib>

#include "operators.h"

namespace moetune::python {
namespace {

using enum Parameter::Kind;
using Parameters = std::vector<Parameter>;

struct Schemas {
  const Operator& of;
  Parameters inputs, outputs, optional_outputs, options;
  Parameters also_written = {};  // by an overload of its own, which returns the outputs
};

constexpr const char* kLayouts[] = {"NHD", "HND"};
constexpr const char* kCacheScales[] = {"tensor", "head"};

Parameters operator+(Parameters all, const Parameters& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Facts of a described kernel's call.
Parameter flag(const char* name, int place, const char* fact) {
  return {.name = name, .kind = kFlag, .place = place, .initial = "False", .fact = fact};
}
Parameter choice(const char* name, int place, const char* initial, std::span<const char* const> choices) {
  return {.name = name, .kind = kChoice, .place = place, .initial = initial, .choices = choices, .fact = name};
}
Parameter number(const char* name, int place) { return {.name = name, .kind = kInteger, .place = place, .fact = name}; }

Schemas decode_schemas() {
  return {decode_operator(),
          {{"q", kTensor, MOETUNE_DECODE_Q},
           {"k_cache", kTensor, MOETUNE_DECODE_K},
           {"v_cache", kTensor, MOETUNE_DECODE_V},
           {"page_table", kOptionalTensor, MOETUNE_DECODE_PAGE_TABLE},
           {"seq_lens", kTensor, MOETUNE_DECODE_LENGTHS},
           {"scale", kScale},
           {"layout", kChoice, kHeadsFirst, "'NHD'", kLayouts}},
          {{"out", kTensor, MOETUNE_DECODE_O}},
          {{"lse", kOptionalTensor, MOETUNE_DECODE_LSE, "None"}},
          {{"max_context", kSymbolicInteger, kMaxContext, "0"},
           {"min_context", kSymbolicInteger, kMinContext, "0"},
           {"total_tokens", kSymbolicInteger, kTotalTokens, "0"},
           {"window", kInteger, kWindow, "0"},
           {"sinks", kOptionalTensor, MOETUNE_DECODE_SINKS, "None"},
           {"k_scale", kOptionalTensor, MOETUNE_DECODE_K_SCALE, "None"},
           {"v_scale", kOptionalTensor, MOETUNE_DECODE_V_SCALE, "None"},
           {"kv_settled", kFlag, kKvSettled, "False"},
           {"softcap", kInteger, kSoftcap, "0"}},
          {{"lse", kTensor, MOETUNE_DECODE_LSE}}};
}

Schemas prefill_schemas() {
  return {prefill_operator(),
          {{"q", kTensor, MOETUNE_PREFILL_Q},
           {"k", kTensor, MOETUNE_PREFILL_K},
           {"v", kTensor, MOETUNE_PREFILL_V},
           {"q_offsets", kTensor, MOETUNE_PREFILL_Q_OFFSETS},
           {"kv_offsets", kOptionalTensor, MOETUNE_PREFILL_KV_OFFSETS},
           {"page_table", kOptionalTensor, MOETUNE_PREFILL_PAGE_TABLE},
           {"seq_lens", kOptionalTensor, MOETUNE_PREFILL_KV_LENGTHS},
           {"scale", kScale},
           {"layout", kChoice, kHeadsFirst, "'NHD'", kLayouts}},
          {{"out", kTensor, MOETUNE_PREFILL_O}},
          {{"lse", kOptionalTensor, MOETUNE_PREFILL_LSE, "None"}},
          {{"max_q", kSymbolicInteger, kPrefillMaxQ, "0"},
           {"max_kv", kSymbolicInteger, kPrefillMaxKv, "0"},
           {"min_kv", kSymbolicInteger, kPrefillMinKv, "0"},
           {"causal", kFlag, kPrefillCausal, "True"},
           {"window", kInteger, kWindow, "0"},
           {"sinks", kOptionalTensor, MOETUNE_PREFILL_SINKS, "None"},
           {"k_scale", kOptionalTensor, MOETUNE_PREFILL_K_SCALE, "None"},
           {"v_scale", kOptionalTensor, MOETUNE_PREFILL_V_SCALE, "None"},
           {"q_scale", kOptionalTensor, MOETUNE_PREFILL_Q_SCALE, "None"},
           {"softcap", kInteger, kSoftcap, "0"}},
          {{"lse", kTensor, MOETUNE_PREFILL_LSE}}};
}

std::vector<Schemas> route_schemas() {
  const Parameters inputs = {{"logits", kTensor, MOETUNE_ROUTER_LOGITS}, {"top_k", kInteger, kTopK}};
  const Parameters chosen = {{"ids", kTensor, MOETUNE_ROUTER_IDS}, {"weights", kTensor, MOETUNE_ROUTER_WEIGHTS}};
  const Parameters counts = {{"counts", kTensor, MOETUNE_ROUTER_COUNTS}};
  const Parameters places = {{"sorted", kTensor, MOETUNE_ROUTER_SORTED}, {"inverse", kTensor, MOETUNE_ROUTER_INVERSE}};
  const Parameters padded = chosen + counts + Parameters{{"offsets", kTensor, MOETUNE_ROUTER_OFFSETS}} + places;
  const Parameters dropped = {{"dropped", kOptionalTensor, MOETUNE_ROUTER_DROPPED, "None"}};
  const Parameters options = {{"score", kChoice, kScore, "'softmax'", kScores},
                              {"bias", kOptionalTensor, MOETUNE_ROUTER_BIAS, "None"},
                              {"groups", kInteger, kGroups, "1"},
                              {"groups_kept", kInteger, kGroupsKept, "1"},
                              {"renormalize", kFlag, kRenormalize, "True"},
                              {"scale", kScale, 0, "1.0"},
                              {"token_count", kOptionalTensor, MOETUNE_ROUTER_TOKEN_COUNT, "None"}};
  const Parameters plan = {{"capacity", kInteger, kCapacity, "0"},
                           {"expert_map", kOptionalTensor, MOETUNE_ROUTER_EXPERT_MAP, "None"}};
  const Parameters ids = {{"ids_type", kChoice, kIdsType, "'i32'", kIdsTypes}};
  const Parameters padded_options = options + Parameters{{"align", kInteger, kAlign, "16"}} + plan + ids;
  const auto with_plan = [&](Routed routed, const Parameter& last) {
    return Schemas{route_operator(routed), inputs, padded + Parameters{last}, dropped, padded_options};
  };
  return {with_plan(Routed::blocks, {"block_experts", kTensor, MOETUNE_ROUTER_BLOCK_EXPERTS}),
          with_plan(Routed::rows, {"row_experts", kTensor, MOETUNE_ROUTER_ROW_EXPERTS}),
          with_plan(Routed::ends, {"ends", kTensor, MOETUNE_ROUTER_ENDS}),
          {route_operator(Routed::masked), inputs + Parameters{{"segment", kInteger, kSegment}},
           chosen + counts + places, dropped, options + plan + ids},
          {route_operator(Routed::ranks),
           inputs + Parameters{{"ranks", kInteger, kRanks}},
           chosen + counts +
               Parameters{{"tokens_per_rank", kTensor, MOETUNE_ROUTER_TOKENS_PER_RANK},
                          {"in_rank", kTensor, MOETUNE_ROUTER_IN_RANK}},
           {},
           options + Parameters{{"ids_type", kChoice, kIdsType, "'i64'", kIdsTypes}}},
          {route_operator(Routed::weights), inputs, chosen, {}, options + ids}};
}

std::vector<Schemas> route_plan_schemas() {
  const Parameters inputs = {{"ids", kTensor, MOETUNE_ROUTE_PLAN_IDS}, {"num_experts", kInteger, kPlanExperts}};
  const Parameters counts = {{"counts", kTensor, MOETUNE_ROUTE_PLAN_COUNTS}};
  const Parameters places = {{"sorted", kTensor, MOETUNE_ROUTE_PLAN_SORTED},
                             {"inverse", kTensor, MOETUNE_ROUTE_PLAN_INVERSE}};
  const Parameters padded = counts + Parameters{{"offsets", kTensor, MOETUNE_ROUTE_PLAN_OFFSETS}} + places;
  const Parameters align = {{"align", kInteger, kPlanAlign, "16"}};
  const Parameters options = {{"expert_map", kOptionalTensor, MOETUNE_ROUTE_PLAN_EXPERT_MAP, "None"},
                              {"token_count", kOptionalTensor, MOETUNE_ROUTE_PLAN_TOKEN_COUNT, "None"}};
  const auto with_last = [&](Routed routed, const Parameter& last) {
    return Schemas{route_plan_operator(routed), inputs, padded + Parameters{last}, {}, align + options};
  };
  return {with_last(Routed::blocks, {"block_experts", kTensor, MOETUNE_ROUTE_PLAN_BLOCK_EXPERTS}),
          with_last(Routed::rows, {"row_experts", kTensor, MOETUNE_ROUTE_PLAN_ROW_EXPERTS}),
          with_last(Routed::ends, {"ends", kTensor, MOETUNE_ROUTE_PLAN_ENDS}),
          {route_plan_operator(Routed::masked),
           inputs + Parameters{{"segment", kInteger, kPlanSegment}},
           counts + places,
           {{"dropped", kOptionalTensor, MOETUNE_ROUTE_PLAN_DROPPED, "None"}},
           options}};
}

std::vector<Schemas> move_schemas() {
  const Parameters inputs = {{"x", kTensor, MOETUNE_MOE_DISPATCH_X},
                             {"sorted", kTensor, MOETUNE_MOE_DISPATCH_SORTED},
                             {"inverse", kTensor, MOETUNE_MOE_DISPATCH_INVERSE}};
  const Parameters rows = {{"rows", kTensor, MOETUNE_MOE_DISPATCH_ROWS}};
  const Parameters scales = {{"scales", kTensor, MOETUNE_MOE_DISPATCH_SCALES}};
  const Parameters padding = {{"padding", kChoice, kPadding, "'zeros'", kPaddings}};
  const Parameters scaling = {{"scale", kChoice, kScaleOf, "'group'", kScalesOf},
                              {"scale_layout", kChoice, kScaleLayout, "'row'", kScaleLayouts}};
  return {{dispatch_operator(), inputs, rows, {}, padding},
          {dispatch_e4m3_operator(), inputs, rows + scales, {}, scaling + padding},
          {combine_operator(),
           {{"rows", kTensor, MOETUNE_MOE_COMBINE_ROWS},
            {"inverse", kTensor, MOETUNE_MOE_COMBINE_INVERSE},
            {"weights", kTensor, MOETUNE_MOE_COMBINE_WEIGHTS}},
           {{"out", kTensor, MOETUNE_MOE_COMBINE_OUT}},
           {},
           {}},
          {experts_operator(),
           {{"x", kTensor, MOETUNE_MOE_EXPERTS_X},
            {"sorted", kOptionalTensor, MOETUNE_MOE_EXPERTS_SORTED},
            {"offsets", kTensor, MOETUNE_MOE_EXPERTS_OFFSETS},
            {"inverse", kOptionalTensor, MOETUNE_MOE_EXPERTS_INVERSE},
            {"weights", kOptionalTensor, MOETUNE_MOE_EXPERTS_WEIGHTS},
            {"w_gate_up", kOptionalTensor, MOETUNE_MOE_EXPERTS_W_GATE_UP},
            {"w_down", kOptionalTensor, MOETUNE_MOE_EXPERTS_W_DOWN}},
           {{"out", kTensor, MOETUNE_MOE_EXPERTS_OUT}},
           {},
           {{"x_scale", kOptionalTensor, MOETUNE_MOE_EXPERTS_X_SCALE, "None"},
            {"gate_up_scale", kOptionalTensor, MOETUNE_MOE_EXPERTS_GATE_UP_SCALE, "None"},
            {"down_scale", kOptionalTensor, MOETUNE_MOE_EXPERTS_DOWN_SCALE, "None"},
            {"gate_up_bias", kOptionalTensor, MOETUNE_MOE_EXPERTS_GATE_UP_BIAS, "None"},
            {"down_bias", kOptionalTensor, MOETUNE_MOE_EXPERTS_DOWN_BIAS, "None"},
            {"activation", kChoice, kActivation, "'silu'", kActivations},
            {"top_k", kInteger, kExpertsTopK, "0"}}}};
}

std::vector<Schemas> norm_schemas() {
  const Parameters inputs = {{"x", kTensor, MOETUNE_ADD_RMSNORM_X},
                             {"weight", kTensor, MOETUNE_ADD_RMSNORM_WEIGHT},
                             {"eps", kScale, 0, "1e-06"}};
  const Parameters out = {{"out", kTensor, MOETUNE_ADD_RMSNORM_OUT}};
  const Parameters scales = {{"scales", kTensor, MOETUNE_ADD_RMSNORM_SCALES}};
  const auto residual = [](Parameter::Kind kind) {
    return Parameters{{.name = "residual",
                       .kind = kind,
                       .place = MOETUNE_ADD_RMSNORM_RESIDUAL,
                       .initial = kind == kTensor ? "" : "None",
                       .also = MOETUNE_ADD_RMSNORM_RESIDUAL_OUT}};
  };
  const Parameters plus_one = {flag("plus_one", 0, "weight=plus_one")};
  const Parameters scaling = {choice("scale", 1, "'group'", kScalesOf)};
  return {{described_operator("add_rmsnorm", "add_rmsnorm"), inputs, out, residual(kOptionalTensor), plus_one,
           residual(kTensor)},
          {described_operator("add_rmsnorm_e4m3", "add_rmsnorm", "out=e4m3"), inputs, out + scales,
           residual(kOptionalTensor), plus_one + scaling, residual(kTensor)},
          {described_operator("add_rmsnorm_static", "add_rmsnorm", "out=e4m3,scale=static"),
           Parameters{inputs[0], inputs[1], {"scale", kTensor, MOETUNE_ADD_RMSNORM_STATIC_SCALE}, inputs[2]}, out,
           residual(kOptionalTensor), plus_one, residual(kTensor)}};
}

std::vector<Schemas> act_schemas() {
  const Parameters x = {{"x", kTensor, MOETUNE_ACT_MUL_X}}, out = {{"out", kTensor, MOETUNE_ACT_MUL_OUT}};
  const Parameters options = {choice("activation", 0, "'silu'", kActivations),
                              flag("interleaved", 1, "gate_up=in_turn")};
  return {{described_operator("act_mul", "act_mul"), x, out, {}, options},
          {described_operator("act_mul_e4m3", "act_mul", "out=e4m3"),
           x,
           out + Parameters{{"scales", kTensor, MOETUNE_ACT_MUL_SCALES}},
           {},
           options}};
}

Schemas linear_schemas() {
  const Parameters inputs = {{"x", kTensor, MOETUNE_FEW_ROWS_LINEAR_X},
                             {"weight", kTensor, MOETUNE_FEW_ROWS_LINEAR_WEIGHT},
                             {"bias", kOptionalTensor, MOETUNE_FEW_ROWS_LINEAR_BIAS, "None"}};
  return {described_operator("few_rows_linear", "few_rows_linear"),
          inputs,
          {{"out", kTensor, MOETUNE_FEW_ROWS_LINEAR_OUT}},
          {},
          {}};
}

Schemas gate_schemas() {
  const auto option = [](Parameter parameter, const char* initial) {
    parameter.initial = initial;
    return parameter;
  };
  return {described_operator("gate_route", "gate_route"),
          {{"x", kTensor, MOETUNE_GATE_ROUTE_X},
           {"weight", kTensor, MOETUNE_GATE_ROUTE_WEIGHT},
           number("top_k", 0),
           {"bias", kOptionalTensor, MOETUNE_GATE_ROUTE_BIAS, "None"}},
          {{"logits", kTensor, MOETUNE_GATE_ROUTE_LOGITS},
           {"ids", kTensor, MOETUNE_GATE_ROUTE_IDS},
           {"weights", kTensor, MOETUNE_GATE_ROUTE_WEIGHTS}},
          {},
          {choice("score", 1, "'softmax'", kScores),
           {"correction", kOptionalTensor, MOETUNE_GATE_ROUTE_CORRECTION, "None"},
           option(number("groups", 2), "1"),
           option(number("groups_kept", 3), "1"),
           option(flag("renormalize", 4, "!renormalize=no"), "True"),
           {"scale", kScale, 0, "1.0"},
           {.name = "logits_type",
            .kind = kChoice,
            .place = 5,
            .initial = "'bf16'",
            .choices = kLogitTypes,
            .fact = "logits"},
           {.name = "ids_type", .kind = kChoice, .place = 6, .initial = "'i32'", .choices = kIdsTypes, .fact = "ids"}}};
}

Schemas transfer_schemas() {
  return {kv_transfer_operator(),
          {{"source", kTensor, MOETUNE_KV_TRANSFER_SOURCE},
           {"source_pages", kOptionalTensor, MOETUNE_KV_TRANSFER_SOURCE_PAGES, "None"},
           {"target_pages", kOptionalTensor, MOETUNE_KV_TRANSFER_TARGET_PAGES, "None"}},
          {{"target", kTensor, MOETUNE_KV_TRANSFER_TARGET}},
          {},
          {{"scales", kOptionalTensor, MOETUNE_KV_TRANSFER_SCALES, "None"},
           {"layout", kChoice, kTransferHeadsFirst, "'NHD'", kLayouts},
           {"sms", kInteger, kTransferSms, "0"}}};
}

std::vector<Schemas> latent_schemas() {
  const Parameters rows = {{"q", kTensor, MOETUNE_MLA_DECODE_Q}, {"kv", kTensor, MOETUNE_MLA_DECODE_KV}};
  const Parameters scale = {{"scale", kScale, 0, "0.0721687836"}};
  const Parameters narrow = {{"kv_scale", kOptionalTensor, MOETUNE_MLA_DECODE_KV_SCALE, "None"},
                             {"group_scales", kOptionalTensor, MOETUNE_MLA_DECODE_GROUP_SCALES, "None"},
                             {"rope", kOptionalTensor, MOETUNE_MLA_DECODE_ROPE, "None"}};
  const Parameters out = {{"out", kTensor, MOETUNE_MLA_DECODE_O}}, lse = {{"lse", kTensor, MOETUNE_MLA_DECODE_LSE}},
                   no_lse = {{"lse", kOptionalTensor, MOETUNE_MLA_DECODE_LSE, "None"}};
  return {{mla_decode_operator(),
           rows +
               Parameters{{"page_table", kTensor, MOETUNE_MLA_DECODE_PAGE_TABLE},
                          {"lengths", kTensor, MOETUNE_MLA_DECODE_LENGTHS}} +
               scale,
           out, no_lse, Parameters{{"context", kSymbolicInteger, kLatentContext, "0"}} + narrow, lse},
          {mla_decode_chosen_operator(), rows + Parameters{{"indices", kTensor, MOETUNE_MLA_DECODE_INDICES}} + scale,
           out, no_lse, narrow, lse}};
}

std::vector<Schemas> rope_schemas() {
  const Parameters inputs = {{"qkv", kTensor, MOETUNE_QK_NORM_ROPE_QKV},
                             {"cos", kTensor, MOETUNE_QK_NORM_ROPE_COS},
                             {"sin", kTensor, MOETUNE_QK_NORM_ROPE_SIN}};
  const Parameters heads = {number("q_heads", 0), number("kv_heads", 1)};
  const Parameters q = {{"q", kTensor, MOETUNE_QK_NORM_ROPE_Q}};
  const Parameters caches = {{"k_cache", kTensor, MOETUNE_QK_NORM_ROPE_K_CACHE},
                             {"v_cache", kTensor, MOETUNE_QK_NORM_ROPE_V_CACHE}};
  const Parameters scales = {{"k_scale", kOptionalTensor, MOETUNE_QK_NORM_ROPE_K_SCALE, "None"},
                             {"v_scale", kOptionalTensor, MOETUNE_QK_NORM_ROPE_V_SCALE, "None"},
                             choice("kv_scale", 3, "'tensor'", kCacheScales)};
  const Parameters options = {{"q_weight", kOptionalTensor, MOETUNE_QK_NORM_ROPE_Q_WEIGHT, "None"},
                              {"k_weight", kOptionalTensor, MOETUNE_QK_NORM_ROPE_K_WEIGHT, "None"},
                              {"eps", kScale, 0, "1e-06"},
                              flag("interleaved", 2, "pairs=neighbors")};
  return {{described_operator("qk_norm_rope", "qk_norm_rope", "kv=rows"),
           inputs + heads,
           q + Parameters{{"k", kTensor, MOETUNE_QK_NORM_ROPE_K}},
           {},
           options},
          {described_operator("qk_norm_rope_kv_write", "qk_norm_rope", "kv=pages"),
           inputs + Parameters{{"slots", kTensor, MOETUNE_QK_NORM_ROPE_SLOTS}} + heads, q, caches, options + scales,
           caches}};
}

// "Tensor(a!)? lse=None"
std::string text_of(const Parameter& parameter, const std::string& alias = "") {
  static constexpr const char* kTypes[] = {"Tensor",    "Tensor", "int", "SymInt", "bool",  "float",  "str",
                                           "Tensor?[]", "Tensor", "str", "str",    "int[]", "float[]"};
  std::string text = kTypes[parameter.kind] + alias +
                     (parameter.kind == kOptionalTensor ? "? "
                      : parameter.kind == kWritten      ? "[] "
                                                        : " ");
  text += parameter.name;
  return *parameter.initial != '\0' ? text + "=" + parameter.initial : text;
}

Overload overload_of(const std::string& kind, const Schemas& schemas, const Parameters& written,
                     const Parameters& returned) {
  std::string text;
  for (const Parameter& parameter : schemas.inputs) text += (text.empty() ? "(" : ", ") + text_of(parameter);
  if (!written.empty() || !schemas.options.empty()) text += ", *";
  for (char letter = 'a'; const Parameter& parameter : written)
    text += ", " + text_of(parameter, std::string("(") + letter++ + "!)");
  for (const Parameter& parameter : schemas.options) text += ", " + text_of(parameter);
  std::string results;
  for (const Parameter& parameter : returned) results += (results.empty() ? "" : ", ") + text_of(parameter);
  const bool is_one = returned.size() == 1;
  text += ") -> " + (!is_one ? "(" + results + ")" : returned[0].kind == kWritten ? "Tensor[]" : "Tensor");
  Overload made{schemas.of.name() + kind, schemas.of, schemas.inputs + written + schemas.options,
                !returned.empty(),        0,          text};
  for (const Parameter& parameter : made.parameters)
    if (parameter.is_tensor())
      made.tensor_count =
          std::max(made.tensor_count, static_cast<size_t>(std::max(parameter.place, parameter.also)) + 1);
  return made;
}

std::vector<Overload> launch_overloads() {
  const Parameters inputs = {{"kernel", kKernel}, {"tensors", kRead}, {"facts", kFacts, 0, "''"}};
  const Parameters options = {{"integers", kIntegers, 0, "[]"}, {"reals", kReals, 0, "[]"}};
  const Schemas schemas{launch_operator(), inputs, {}, {}, options};
  return {overload_of("", schemas, {}, {{"", kWritten}}), overload_of(".out", schemas, {{"out", kWritten}}, {})};
}

}  // namespace

const std::vector<Overload>& overloads() {
  static const std::vector<Overload> all = [] {
    std::vector<Overload> made;
    const auto add = [&](const Schemas& each) {
      // Whether each call writes tensors of the caller's, so that no overload goes without.
      const bool writes = !each.also_written.empty() && each.optional_outputs.front().kind == kTensor;
      if (!writes) made.push_back(overload_of("", each, {}, each.outputs));
      made.push_back(overload_of(".out", each, each.outputs + each.optional_outputs, {}));
      if (!each.also_written.empty())
        made.push_back(overload_of(writes ? "" : "." + std::string(each.also_written.front().name), each,
                                   each.also_written, each.outputs));
    };
    add(decode_schemas());
    add(prefill_schemas());
    for (const Schemas& each : route_schemas()) add(each);
    for (const Schemas& each : route_plan_schemas()) add(each);
    for (const Schemas& each : move_schemas()) add(each);
    for (const Schemas& each : norm_schemas()) add(each);
    for (const Schemas& each : rope_schemas()) add(each);
    for (const Schemas& each : act_schemas()) add(each);
    add(linear_schemas());
    add(gate_schemas());
    for (const Schemas& each : latent_schemas()) add(each);
    add(transfer_schemas());
    for (const Overload& each : launch_overloads()) made.push_back(each);
    if (made.size() != kOverloads) std::abort();  // PyTorch would lack kernels of the last
    return made;
  }();
  return all;
}

}  // namespace moetune::python
