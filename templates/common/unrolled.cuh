// Loops whose number of turns is known.
#pragma once

// Calls take(0) to take(kCount - 1); one call is compiled as if it stood there.
template <int kCount, typename Take>
__device__ __forceinline__ void unrolled(const Take& take) {
  if constexpr (kCount == 1) {
    take(0);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) take(i);
  }
}
