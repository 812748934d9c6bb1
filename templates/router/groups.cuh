// Selection by groups (DeepSeek-V3): a group counts as much as its two best experts, and the experts of all but the
// best kGroupsKept groups are dropped.
#pragma once

#include "templates/router/row.cuh"

struct TopTwo {
  float best, second;

  __device__ __forceinline__ void add(float score) {
    second = fmaxf(second, fminf(best, score));
    best = fmaxf(best, score);
  }
};

// Over the lanes that share a row.
__device__ __forceinline__ TopTwo top_two_across(TopTwo top) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    const float best = __shfl_xor_sync(kWholeWarp, top.best, distance);
    const float second = __shfl_xor_sync(kWholeWarp, top.second, distance);
    top.add(best);
    top.second = fmaxf(top.second, second);
  }
  return top;
}

// A bit for each group that is kept.
__device__ __forceinline__ u32 kept_groups(const float (&scores)[kHeld], Lane lane) {
  u64 ranks[kGroups];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    TopTwo top{minus_infinity(), minus_infinity()};
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (lane.expert(i) / kGroupSize == g) top.add(scores[i]);
    }
    top = top_two_across(top);
    ranks[g] = rank_of(order_of(kGroupSize > 1 ? __fadd_rn(top.best, top.second) : top.best), g);
  }
  u32 kept = 0;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    int better = 0;
#pragma unroll
    for (int other = 0; other < kGroups; ++other) better += ranks[other] > ranks[g];
    kept |= u32(better < kGroupsKept) << g;
  }
  return kept;
}
