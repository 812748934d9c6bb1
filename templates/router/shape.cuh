// What the router and its reference agree on: the family's shape, element types, and the order of experts.
//
// Macros: EXPERTS, TOP_K, SCORE (a Score), BIAS, GROUPS, GROUPS_KEPT, RENORMALIZE, LOGITS (Fp32, Bf16 or Fp16),
// PLAN (1: counts, offsets and permutations too), MAPPED (1: an expert map), COUNTED (1: the number of tokens is
// on the device), ALIGN (segments of experts begin at multiples of it), SEGMENT (places of every expert's segment; 0:
// as many as it needs), LAYOUT (a Grouping), RANKS (over which experts are spread; 0: not wanted), IDS (int or i64),
// DROPPED (1: a mask of the slots that an expert had no room for).
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/types.cuh"

struct Fp32 {
  float value;

  static __device__ __forceinline__ float to_float(Fp32 element) { return element.value; }
};

using Logit = LOGITS;
constexpr int kExperts = EXPERTS, kTopK = TOP_K;
// The next power of two of kTopK: the length of sorted lists, and of the tree that adds up a token's scores.
constexpr int kTopKPower = kTopK > 16 ? 32 : kTopK > 8 ? 16 : kTopK > 4 ? 8 : kTopK > 2 ? 4 : kTopK;
static_assert(kExperts <= 1024 && kTopK <= 32, "a warp has a lane for each slot, and for each 32 experts");
constexpr int kGroups = GROUPS, kGroupsKept = GROUPS_KEPT, kGroupSize = kExperts / kGroups;
constexpr bool kBias = BIAS, kRenormalize = RENORMALIZE, kPlan = PLAN;
constexpr bool kMapped = MAPPED, kCounted = COUNTED;
constexpr int kAlign = ALIGN, kSegment = SEGMENT, kRanks = RANKS;
constexpr bool kDropped = DROPPED;
using Id = IDS;

// What tells a grouped GEMM whose places are whose:
// - blocks: the expert of each block of kAlign places
// - rows: the expert of each place
// - ends: where each expert's segment ends
// - masked: nothing, all segments have kSegment places
enum class Grouping { blocks, rows, ends, masked };
constexpr Grouping kGrouping = Grouping::LAYOUT;
static_assert((kGrouping == Grouping::masked) == (kSegment > 0));

// How a logit becomes a score. topk_softmax: the softmax runs over the selected experts alone.
enum class Score { softmax, topk_softmax, sigmoid, sqrt_softplus };
constexpr Score kScore = Score::SCORE;

// Selecting by the logits selects by the scores, which grow with them, and needs no sum over all experts.
constexpr bool kByLogit =
    kScore == Score::topk_softmax || (kScore == Score::softmax && !kBias && kGroups == 1);
// Softmax weights that are renormalized are a softmax over the selected.
constexpr bool kOverSelected =
    kScore == Score::topk_softmax || (kScore == Score::softmax && kRenormalize && kByLogit);
constexpr bool kNeedsSum = kScore == Score::softmax && !kOverSelected;

// The orders of taken and absent experts, and of those of dropped groups: behind all that have a score.
constexpr u32 kTaken = 0, kOfDroppedGroup = 1;

// Larger for a larger score, which is neither NaN nor -0; at least 2, for -infinity too.
__device__ __forceinline__ u32 order_of_number(float score) {
  const int bits = int(__float_as_uint(score));
  return u32(bits) ^ (u32(bits >> 31) | 0x80000000u);
}

// NaN counts as -infinity.
__device__ __forceinline__ u32 order_of(float score) {
  return order_of_number(fmaxf(score, -__uint_as_float(0x7f800000u)));
}

// The score of an order that has one.
__device__ __forceinline__ float score_of_order(u32 order) {
  return __uint_as_float(order ^ (~u32(int(order) >> 31) | 0x80000000u));
}

// Larger is better: a higher score, then a lower id.
__device__ __forceinline__ u64 rank_of(u32 order, u32 expert) {
  return u64(order) << 32 | (0xffffffffu - expert);
}
__device__ __forceinline__ u32 expert_of(u64 rank) { return 0xffffffffu - u32(rank); }

// Tokens that are routed. The others get ids of -1, weights of 0 and no place.
__device__ __forceinline__ int live_tokens(int tokens, const int* token_count) {
  return kCounted ? min_of(tokens, max_of(0, *token_count)) : tokens;
}

// Where the slots of an expert go: its own segment, that of its local id, or -1 for nowhere.
__device__ __forceinline__ int segment_of(int expert, const int* expert_map) {
  if constexpr (!kMapped) return expert;
  const int local = expert >= 0 ? expert_map[expert] : -1;
  return local < kExperts ? local : -1;
}

// The places of an expert's segment: whole blocks of kAlign, unless all segments are equal.
__device__ __forceinline__ int padded(int count) {
  return kSegment > 0 ? kSegment : (count + kAlign - 1) / kAlign * kAlign;
}
