// Values that share a scale, on their way to e4m3: value = e4m3 * scale, and the largest magnitude becomes 448.
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/vectors.cuh"

// Groups without a larger magnitude count as zero: the inverse of a smaller scale would be infinite.
constexpr float kLeastMagnitude = 0x1p-100f;

__device__ __forceinline__ float scale_of(float largest) {
  return largest < kLeastMagnitude ? 1.0f : __fdiv_rn(largest, 448.0f);
}

// The factor of a group's values before they are rounded.
__device__ __forceinline__ float inverse_of(float scale) { return __fdiv_rn(1.0f, scale); }

__device__ __forceinline__ u32 quantize_pair(float low, float high, float inverse) {
  return narrow_e4m3x2(__fmul_rn(low, inverse), __fmul_rn(high, inverse));
}

template <int kCount>
__device__ __forceinline__ VectorOf<kCount> quantize_vector(const float (&values)[kCount], float inverse) {
  VectorOf<kCount> vector;
#pragma unroll
  for (int w = 0; w < kCount / 4; ++w)
    vector.words[w] = quantize_pair(values[4 * w], values[4 * w + 1], inverse) |
                      quantize_pair(values[4 * w + 2], values[4 * w + 3], inverse) << 16;
  return vector;
}

template <int kCount>
__device__ __forceinline__ float largest_magnitude(const float (&values)[kCount]) {
  float largest = 0;
#pragma unroll
  for (int e = 0; e < kCount; ++e) largest = fmaxf(largest, fabsf(values[e]));
  return largest;
}
