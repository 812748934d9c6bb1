// Values exchanged between the four lanes that hold a row of an mma.sync or wgmma result.
#pragma once

#include "templates/common/types.cuh"

// Lane c of each four gets, of the words of all four, those at index c, in the order of lanes.
__device__ __forceinline__ void transpose_quad(u32 (&words)[4]) {
  const int lane = threadIdx.x;
#pragma unroll
  for (int bit = 1; bit <= 2; bit *= 2) {
    const bool upper = lane & bit;
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      const int low = bit == 1 ? 2 * pair : pair, high = low + bit;
      const u32 got = __shfl_xor_sync(kWholeWarp, upper ? words[low] : words[high], bit);
      if (upper) {
        words[low] = got;
      } else {
        words[high] = got;
      }
    }
  }
}
