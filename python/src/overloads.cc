// The schemas of moetune/torch.py's operators, argument by argument.
#include "decode_operator.h"
#include "moe_operators.h"

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

constexpr std::array kRouteInputs = {Parameter{"logits", kTensor, MOETUNE_ROUTER_LOGITS},
                                     Parameter{"top_k", kInteger, kTopK}};
constexpr std::array kRouteWeightsOut = {Parameter{"ids", kTensor, MOETUNE_ROUTER_IDS},
                                         Parameter{"weights", kTensor, MOETUNE_ROUTER_WEIGHTS}};
constexpr std::array kRoutePlanOut = {
    Parameter{"counts", kTensor, MOETUNE_ROUTER_COUNTS},
    Parameter{"offsets", kTensor, MOETUNE_ROUTER_OFFSETS},
    Parameter{"sorted", kTensor, MOETUNE_ROUTER_SORTED},
    Parameter{"inverse", kTensor, MOETUNE_ROUTER_INVERSE},
    Parameter{"block_experts", kTensor, MOETUNE_ROUTER_BLOCK_EXPERTS},
};
constexpr std::array kRouteOptions = {
    Parameter{"score", kChoice, kScore, kScores},
    Parameter{"bias", kOptionalTensor, MOETUNE_ROUTER_BIAS},
    Parameter{"groups", kInteger, kGroups},
    Parameter{"groups_kept", kInteger, kGroupsKept},
    Parameter{"renormalize", kFlag, kRenormalize},
    Parameter{"scale", kScale},
    Parameter{"token_count", kOptionalTensor, MOETUNE_ROUTER_TOKEN_COUNT},
};
constexpr std::array kRoutePlanOptions = {
    Parameter{"align", kInteger, kAlign},
    Parameter{"capacity", kInteger, kCapacity},
    Parameter{"expert_map", kOptionalTensor, MOETUNE_ROUTER_EXPERT_MAP},
};
constexpr auto kRoute = joined(kRouteInputs, kRouteOptions, kRoutePlanOptions);
constexpr auto kRouteOut =
    joined(kRouteInputs, kRouteWeightsOut, kRoutePlanOut, kRouteOptions, kRoutePlanOptions);
constexpr auto kWeights = joined(kRouteInputs, kRouteOptions);
constexpr auto kWeightsOut = joined(kRouteInputs, kRouteWeightsOut, kRouteOptions);

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
constexpr auto kE4m3 = joined(kDispatchInputs, kScaleOptions, kPaddingOption);
constexpr auto kE4m3Out = joined(kDispatchInputs, kRowsOut, kScalesOut, kScaleOptions, kPaddingOption);

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
      {"route", route_operator(), kRoute, true},
      {"route.out", route_operator(), kRouteOut, false},
      {"route_weights", route_weights_operator(), kWeights, true},
      {"route_weights.out", route_weights_operator(), kWeightsOut, false},
      {"moe_dispatch", dispatch_operator(), kDispatch, true},
      {"moe_dispatch.out", dispatch_operator(), kDispatchOut, false},
      {"moe_dispatch_e4m3", dispatch_e4m3_operator(), kE4m3, true},
      {"moe_dispatch_e4m3.out", dispatch_e4m3_operator(), kE4m3Out, false},
      {"moe_combine", combine_operator(), kCombine, true},
      {"moe_combine.out", combine_operator(), kCombineOut, false},
  }};
  return all;
}

}  // namespace moetune::python
