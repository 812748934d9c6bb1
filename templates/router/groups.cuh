// Selection by groups (DeepSeek-V3): a group counts as much as its two best experts, and the experts of all but the
// best kGroupsKept groups are dropped.
#pragma once

#include "templates/router/row.cuh"

struct TopTwo {
  float best = minus_infinity(), second = minus_infinity();

  __device__ __forceinline__ void add(float score) {
    second = fmaxf(second, fminf(best, score));
    best = fmaxf(best, score);
  }

  __device__ __forceinline__ void merge(TopTwo other) {
    second = fmaxf(fminf(best, other.best), fmaxf(second, other.second));
    best = fmaxf(best, other.best);
  }

  // The order of the group by its score.
  __device__ __forceinline__ u32 order() const { return order_of(kGroupSize > 1 ? __fadd_rn(best, second) : best); }
};

// Merges those of `kAcross` neighbouring lanes.
template <int kAcross>
__device__ __forceinline__ TopTwo top_two_across(TopTwo top) {
#pragma unroll
  for (int distance = kAcross / 2; distance > 0; distance /= 2) {
    TopTwo other;
    other.best = __shfl_xor_sync(kWholeWarp, top.best, distance);
    other.second = __shfl_xor_sync(kWholeWarp, top.second, distance);
    top.merge(other);
  }
  return top;
}

// If what the lanes load at once is whole groups, each has kLanesOfGroup lanes.
constexpr int kGroupsOfStep = kStep / kGroupSize, kLanesOfGroup = max_of(1, kGroupSize / kVector);
constexpr bool kWholeGroups = kStep % kGroupSize == 0 && kGroupSize % kVector == 0 && kExperts % kStep == 0 &&
                              (kLanesOfGroup & (kLanesOfGroup - 1)) == 0;

__device__ __forceinline__ void order_whole_groups(u32 (&orders)[kGroups], const float (&scores)[kHeld]) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    TopTwo top;
#pragma unroll
    for (int v = 0; v < kVector; ++v) top.add(scores[step * kVector + v]);
    const u32 own = top_two_across<kLanesOfGroup>(top).order();
#pragma unroll
    for (int g = 0; g < kGroupsOfStep; ++g)
      orders[step * kGroupsOfStep + g] = __shfl_sync(kWholeWarp, own, g * kLanesOfGroup, kLanes);
  }
}

__device__ __forceinline__ void order_any_groups(u32 (&orders)[kGroups], const float (&scores)[kHeld], Lane lane) {
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    TopTwo top;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (lane.expert(i) / kGroupSize == g) top.add(scores[i]);
    }
    orders[g] = top_two_across<kLanes>(top).order();
  }
}

// A bit for each group that is kept: the better of two equals is the first.
__device__ __forceinline__ u32 kept_groups(const float (&scores)[kHeld], Lane lane) {
  u32 orders[kGroups];
  if constexpr (kWholeGroups) {
    order_whole_groups(orders, scores);
  } else {
    order_any_groups(orders, scores, lane);
  }
  if constexpr (kGroups <= kLanes) {  // a lane judges a group
    u32 own = 0;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) own = lane.lane == g ? orders[g] : own;
    int better = 0;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) better += g < lane.lane ? orders[g] >= own : orders[g] > own;
    const u32 kept = __ballot_sync(kWholeWarp, lane.lane < kGroups && better < kGroupsKept);
    return kLanes == kWarpSize ? kept : kept >> (threadIdx.x % kWarpSize / kLanes * kLanes) & ((1u << kGroups) - 1);
  }
  u32 kept = 0;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    int better = 0;
#pragma unroll
    for (int other = 0; other < kGroups; ++other)
      better += other < g ? orders[other] >= orders[g] : orders[other] > orders[g];
    kept |= u32(better < kGroupsKept) << g;
  }
  return kept;
}
