// The schemas of moetune/torch.py's operators, argument by argument.
#include "operators.h"

namespace moetune::python {
namespace {

using enum Parameter::Kind;

template <size_t... counts>
constexpr auto joined(const std::array<Parameter, counts>&... parts) {
  std::array<Parameter, (counts + ...)> all{};
  size_t next = 0;
  const auto append = [&](const auto& part) {
    for (const Parameter& parameter : part) all[next++] = parameter;
  };
  (append(parts), ...);
  return all;
}

constexpr const char* kLayouts[] = {"NHD", "HND"};

constexpr std::array kDecodeInputs = {
    Parameter{"q", kTensor, MOETUNE_DECODE_Q},
    Parameter{"k_cache", kTensor, MOETUNE_DECODE_K},
    Parameter{"v_cache", kTensor, MOETUNE_DECODE_V},
    Parameter{"page_table", kOptionalTensor, MOETUNE_DECODE_PAGE_TABLE},
    Parameter{"seq_lens", kTensor, MOETUNE_DECODE_LENGTHS},
    Parameter{"scale", kScale},
    Parameter{"layout", kChoice, kHeadsFirst, kLayouts},
};
constexpr std::array kDecodeOut = {Parameter{"out", kTensor, MOETUNE_DECODE_O},
                                   Parameter{"lse", kOptionalTensor, MOETUNE_DECODE_LSE}};
constexpr std::array kDecodeLse = {Parameter{"lse", kTensor, MOETUNE_DECODE_LSE}};
constexpr std::array kDecodeOptions = {
    Parameter{"max_context", kInteger, kMaxContext},
    Parameter{"min_context", kInteger, kMinContext},
    Parameter{"total_tokens", kInteger, kTotalTokens},
    Parameter{"window", kInteger, kWindow},
    Parameter{"sinks", kOptionalTensor, MOETUNE_DECODE_SINKS},
    Parameter{"k_scale", kOptionalTensor, MOETUNE_DECODE_K_SCALE},
    Parameter{"v_scale", kOptionalTensor, MOETUNE_DECODE_V_SCALE},
};
constexpr auto kDecode = joined(kDecodeInputs, kDecodeOptions);
constexpr auto kDecodeOutAll = joined(kDecodeInputs, kDecodeOut, kDecodeOptions);
constexpr auto kDecodeLseAll = joined(kDecodeInputs, kDecodeLse, kDecodeOptions);

constexpr std::array kPrefillInputs = {
    Parameter{"q", kTensor, MOETUNE_PREFILL_Q},
    Parameter{"k", kTensor, MOETUNE_PREFILL_K},
    Parameter{"v", kTensor, MOETUNE_PREFILL_V},
    Parameter{"q_offsets", kTensor, MOETUNE_PREFILL_Q_OFFSETS},
    Parameter{"kv_offsets", kOptionalTensor, MOETUNE_PREFILL_KV_OFFSETS},
    Parameter{"page_table", kOptionalTensor, MOETUNE_PREFILL_PAGE_TABLE},
    Parameter{"seq_lens", kOptionalTensor, MOETUNE_PREFILL_KV_LENGTHS},
    Parameter{"scale", kScale},
    Parameter{"layout", kChoice, kHeadsFirst, kLayouts},
};
constexpr std::array kPrefillOut = {Parameter{"out", kTensor, MOETUNE_PREFILL_O},
                                    Parameter{"lse", kOptionalTensor, MOETUNE_PREFILL_LSE}};
constexpr std::array kPrefillLse = {Parameter{"lse", kTensor, MOETUNE_PREFILL_LSE}};
constexpr std::array kPrefillOptions = {
    Parameter{"max_q", kInteger, kPrefillMaxQ},
    Parameter{"max_kv", kInteger, kPrefillMaxKv},
    Parameter{"min_kv", kInteger, kPrefillMinKv},
    Parameter{"causal", kFlag, kPrefillCausal},
    Parameter{"window", kInteger, kWindow},
    Parameter{"sinks", kOptionalTensor, MOETUNE_PREFILL_SINKS},
    Parameter{"k_scale", kOptionalTensor, MOETUNE_PREFILL_K_SCALE},
    Parameter{"v_scale", kOptionalTensor, MOETUNE_PREFILL_V_SCALE},
};
constexpr auto kPrefill = joined(kPrefillInputs, kPrefillOptions);
constexpr auto kPrefillOutAll = joined(kPrefillInputs, kPrefillOut, kPrefillOptions);
constexpr auto kPrefillLseAll = joined(kPrefillInputs, kPrefillLse, kPrefillOptions);

constexpr std::array kRouteInputs = {Parameter{"logits", kTensor, MOETUNE_ROUTER_LOGITS},
                                     Parameter{"top_k", kInteger, kTopK}};
constexpr std::array kRouteWeightsOut = {Parameter{"ids", kTensor, MOETUNE_ROUTER_IDS},
                                         Parameter{"weights", kTensor, MOETUNE_ROUTER_WEIGHTS}};
constexpr std::array kCountsOut = {Parameter{"counts", kTensor, MOETUNE_ROUTER_COUNTS}};
constexpr std::array kOffsetsOut = {Parameter{"offsets", kTensor, MOETUNE_ROUTER_OFFSETS}};
constexpr std::array kPlacesOut = {Parameter{"sorted", kTensor, MOETUNE_ROUTER_SORTED},
                                   Parameter{"inverse", kTensor, MOETUNE_ROUTER_INVERSE}};
constexpr auto kPaddedOut = joined(kRouteWeightsOut, kCountsOut, kOffsetsOut, kPlacesOut);
constexpr std::array kBlocksOut = {Parameter{"block_experts", kTensor, MOETUNE_ROUTER_BLOCK_EXPERTS}};
constexpr std::array kRowsExpertsOut = {Parameter{"row_experts", kTensor, MOETUNE_ROUTER_ROW_EXPERTS}};
constexpr std::array kEndsOut = {Parameter{"ends", kTensor, MOETUNE_ROUTER_ENDS}};
constexpr std::array kDroppedOut = {Parameter{"dropped", kOptionalTensor, MOETUNE_ROUTER_DROPPED}};
constexpr std::array kRanksOut = {Parameter{"tokens_per_rank", kTensor, MOETUNE_ROUTER_TOKENS_PER_RANK},
                                  Parameter{"in_rank", kTensor, MOETUNE_ROUTER_IN_RANK}};
constexpr std::array kRouteOptions = {
    Parameter{"score", kChoice, kScore, kScores},
    Parameter{"bias", kOptionalTensor, MOETUNE_ROUTER_BIAS},
    Parameter{"groups", kInteger, kGroups},
    Parameter{"groups_kept", kInteger, kGroupsKept},
    Parameter{"renormalize", kFlag, kRenormalize},
    Parameter{"scale", kScale},
    Parameter{"token_count", kOptionalTensor, MOETUNE_ROUTER_TOKEN_COUNT},
};
constexpr std::array kAlignOption = {Parameter{"align", kInteger, kAlign}};
constexpr std::array kPlanOptions = {
    Parameter{"capacity", kInteger, kCapacity},
    Parameter{"expert_map", kOptionalTensor, MOETUNE_ROUTER_EXPERT_MAP},
};
constexpr std::array kIdsOption = {Parameter{"ids_type", kChoice, kIdsType, kIdsTypes}};
constexpr auto kPaddedOptions = joined(kRouteOptions, kAlignOption, kPlanOptions, kIdsOption);
constexpr auto kRoute = joined(kRouteInputs, kPaddedOptions);
constexpr auto kRouteOut = joined(kRouteInputs, kPaddedOut, kBlocksOut, kDroppedOut, kPaddedOptions);
constexpr auto kRouteRowsOut = joined(kRouteInputs, kPaddedOut, kRowsExpertsOut, kDroppedOut, kPaddedOptions);
constexpr auto kRouteEndsOut = joined(kRouteInputs, kPaddedOut, kEndsOut, kDroppedOut, kPaddedOptions);
constexpr std::array kSegmentInput = {Parameter{"segment", kInteger, kSegment}};
constexpr auto kMasked = joined(kRouteInputs, kSegmentInput, kRouteOptions, kPlanOptions, kIdsOption);
constexpr auto kMaskedOut = joined(kRouteInputs, kSegmentInput, kRouteWeightsOut, kCountsOut, kPlacesOut,
                                   kDroppedOut, kRouteOptions, kPlanOptions, kIdsOption);
constexpr std::array kRanksInput = {Parameter{"ranks", kInteger, kRanks}};
constexpr auto kForRanks = joined(kRouteInputs, kRanksInput, kRouteOptions, kIdsOption);
constexpr auto kForRanksOut =
    joined(kRouteInputs, kRanksInput, kRouteWeightsOut, kCountsOut, kRanksOut, kRouteOptions, kIdsOption);
constexpr auto kWeights = joined(kRouteInputs, kRouteOptions, kIdsOption);
constexpr auto kWeightsOut = joined(kRouteInputs, kRouteWeightsOut, kRouteOptions, kIdsOption);

constexpr std::array kDispatchInputs = {Parameter{"x", kTensor, MOETUNE_MOE_DISPATCH_X},
                                        Parameter{"sorted", kTensor, MOETUNE_MOE_DISPATCH_SORTED},
                                        Parameter{"inverse", kTensor, MOETUNE_MOE_DISPATCH_INVERSE}};
constexpr std::array kRowsOut = {Parameter{"rows", kTensor, MOETUNE_MOE_DISPATCH_ROWS}};
constexpr std::array kScalesOut = {Parameter{"scales", kTensor, MOETUNE_MOE_DISPATCH_SCALES}};
constexpr std::array kScaleOptions = {Parameter{"scale", kChoice, kScaleOf, kScalesOf},
                                      Parameter{"scale_layout", kChoice, kScaleLayout, kScaleLayouts}};
constexpr std::array kPaddingOption = {Parameter{"padding", kChoice, kPadding, kPaddings}};
constexpr auto kDispatch = joined(kDispatchInputs, kPaddingOption);
constexpr auto kDispatchOut = joined(kDispatchInputs, kRowsOut, kPaddingOption);
constexpr auto kDispatchE4m3 = joined(kDispatchInputs, kScaleOptions, kPaddingOption);
constexpr auto kDispatchE4m3Out =
    joined(kDispatchInputs, kRowsOut, kScalesOut, kScaleOptions, kPaddingOption);

constexpr std::array kCombine = {Parameter{"rows", kTensor, MOETUNE_MOE_COMBINE_ROWS},
                                 Parameter{"inverse", kTensor, MOETUNE_MOE_COMBINE_INVERSE},
                                 Parameter{"weights", kTensor, MOETUNE_MOE_COMBINE_WEIGHTS}};
constexpr std::array kOut = {Parameter{"out", kTensor, MOETUNE_MOE_COMBINE_OUT}};
constexpr auto kCombineOut = joined(kCombine, kOut);

}  // namespace

const std::array<Overload, kOverloads>& overloads() {
  static const std::array<Overload, kOverloads> all = {{
      {"decode_attention", decode_operator(), kDecode, true},
      {"decode_attention.out", decode_operator(), kDecodeOutAll, false},
      {"decode_attention.lse", decode_operator(), kDecodeLseAll, true},
      {"prefill_attention", prefill_operator(), kPrefill, true},
      {"prefill_attention.out", prefill_operator(), kPrefillOutAll, false},
      {"prefill_attention.lse", prefill_operator(), kPrefillLseAll, true},
      {"route", route_operator(Routed::blocks), kRoute, true},
      {"route.out", route_operator(Routed::blocks), kRouteOut, false},
      {"route_rows", route_operator(Routed::rows), kRoute, true},
      {"route_rows.out", route_operator(Routed::rows), kRouteRowsOut, false},
      {"route_ends", route_operator(Routed::ends), kRoute, true},
      {"route_ends.out", route_operator(Routed::ends), kRouteEndsOut, false},
      {"route_masked", route_operator(Routed::masked), kMasked, true},
      {"route_masked.out", route_operator(Routed::masked), kMaskedOut, false},
      {"route_ranks", route_operator(Routed::ranks), kForRanks, true},
      {"route_ranks.out", route_operator(Routed::ranks), kForRanksOut, false},
      {"route_weights", route_operator(Routed::weights), kWeights, true},
      {"route_weights.out", route_operator(Routed::weights), kWeightsOut, false},
      {"moe_dispatch", dispatch_operator(), kDispatch, true},
      {"moe_dispatch.out", dispatch_operator(), kDispatchOut, false},
      {"moe_dispatch_e4m3", dispatch_e4m3_operator(), kDispatchE4m3, true},
      {"moe_dispatch_e4m3.out", dispatch_e4m3_operator(), kDispatchE4m3Out, false},
      {"moe_combine", combine_operator(), kCombine, true},
      {"moe_combine.out", combine_operator(), kCombineOut, false},
  }};
  return all;
}

}  // namespace moetune::python
