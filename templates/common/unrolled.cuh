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

// Calls take(value) for every value of an array of arrays, in their order in memory.
template <typename Take>
__device__ __forceinline__ void each_value(float& value, const Take& take) {
  take(value);
}
template <typename Part, int kCount, typename Take>
__device__ __forceinline__ void each_value(Part (&parts)[kCount], const Take& take) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) each_value(parts[i], take);
}

template <typename Part, int kCount>
__device__ __forceinline__ void set_zero(Part (&parts)[kCount]) {
  each_value(parts, [](float& value) { value = 0; });
}
