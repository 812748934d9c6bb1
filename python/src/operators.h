// moetune.torch's operators, and the order of Given::integers in the calls of each. Choices count as their problems'
// dimensions list them.
#pragma once

#include "operator.h"

namespace moetune::python {

enum DecodeInteger { kHeadsFirst, kWindow, kSoftcap, kMaxContext, kMinContext, kTotalTokens, kKvSettled };

enum PrefillInteger { kPrefillCausal = kSoftcap + 1, kPrefillMaxQ, kPrefillMaxKv, kPrefillMinKv };

enum RouteInteger { kTopK, kScore, kGroups, kGroupsKept, kRenormalize, kAlign, kCapacity, kSegment, kRanks, kIdsType };
inline constexpr const char* kScores[] = {"softmax", "topk_softmax", "sigmoid", "sqrt_softplus"};
inline constexpr const char* kIdsTypes[] = {"i32", "i64"};
inline constexpr const char* kLogitTypes[] = {"bf16", "f16", "f32"};

enum RoutePlanInteger { kPlanExperts, kPlanAlign, kPlanSegment };

enum DispatchInteger { kScaleOf, kScaleLayout, kPadding };
inline constexpr const char* kScalesOf[] = {"group", "token"};
inline constexpr const char* kScaleLayouts[] = {"row", "column"};
inline constexpr const char* kPaddings[] = {"zeros", "none"};
enum LatentInteger { kLatentContext };
enum TransferInteger { kTransferSms, kTransferHeadsFirst };
enum ExpertsInteger { kActivation, kExpertsTopK };
inline constexpr const char* kActivations[] = {"silu", "swigluoai"};

// The results that a router call requests. Each has its own operator, because a schema fixes the number of results.
enum class Routed {
  weights,  // ids and weights alone
  blocks,   // everything, with the expert of each block of places
  rows,     // with the expert of each place
  ends,     // with the end of each segment
  masked,   // in equal segments
  ranks,    // which tokens go to which rank, and no permutation
};

const Operator& decode_operator();
const Operator& prefill_operator();
const Operator& route_operator(Routed routed);
const Operator& route_plan_operator(Routed routed);  // one with places
const Operator& dispatch_operator();
const Operator& dispatch_e4m3_operator();  // with scales
const Operator& combine_operator();
const Operator& experts_operator();
// A described kernel's; `facts` hold for all its calls. Called once for each operator.
const Operator& described_operator(const char* name, const char* kernel, const char* facts = "");
const Operator& mla_decode_operator();
const Operator& mla_decode_chosen_operator();
const Operator& kv_transfer_operator();
const Operator& launch_operator();  // of any such kernel

}  // namespace moetune::python
