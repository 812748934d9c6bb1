// What the router and its reference agree on: the family's shape, element types, and the order of experts.
//
// Macros: those of segments.cuh; SCORE (a Score), BIAS, GROUPS, GROUPS_KEPT, RENORMALIZE, LOGITS (Fp32, Bf16 or Fp16),
// PLAN (1: counts, offsets and permutations too), RANKS (over which experts are spread; 0: not wanted).
#pragma once

#include "templates/common/convert.cuh"
#include "templates/router/segments.cuh"

using Logit = LOGITS;
// The next power of two of kTopK: the length of sorted lists, and of the tree that adds up a token's scores.
constexpr int kTopKPower = kTopK > 16 ? 32 : kTopK > 8 ? 16 : kTopK > 4 ? 8 : kTopK > 2 ? 4 : kTopK;
constexpr int kGroups = GROUPS, kGroupsKept = GROUPS_KEPT, kGroupSize = kExperts / kGroups;
constexpr bool kBias = BIAS, kRenormalize = RENORMALIZE, kPlan = PLAN;
constexpr int kRanks = RANKS;

// How a logit becomes a score. topk_softmax: the softmax runs over the selected experts alone.
enum class Score { softmax, topk_softmax, sigmoid, sqrt_softplus };
constexpr Score kScore = Score::SCORE;

// Selecting by the logits selects by the scores, which grow with them, and needs no sum over all experts.
constexpr bool kByLogit = kScore == Score::topk_softmax || (kScore == Score::softmax && !kBias && kGroups == 1);
// Softmax weights that are renormalized are a softmax over the selected.
constexpr bool kOverSelected = kScore == Score::topk_softmax || (kScore == Score::softmax && kRenormalize && kByLogit);
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
__device__ __forceinline__ u64 rank_of(u32 order, u32 expert) { return u64(order) << 32 | (0xffffffffu - expert); }
__device__ __forceinline__ u32 expert_of(u64 rank) { return 0xffffffffu - u32(rank); }
