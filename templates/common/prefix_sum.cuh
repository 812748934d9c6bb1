// Sums over the lanes of a warp, in order.
#pragma once

#include "templates/common/types.cuh"

// The sum of the values of this lane and of those before it. All lanes take part.
__device__ __forceinline__ int warp_prefix_sum(int value, int lane) {
#pragma unroll
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const int other = __shfl_up_sync(kWholeWarp, value, distance);
    if (lane >= distance) value += other;
  }
  return value;
}
