// Values that share a scale, on their way to e4m3: value = e4m3 * scale, and the largest magnitude becomes 448.
#pragma once

#include "templates/common/convert.cuh"

// Groups without a larger magnitude count as zero: the inverse of a smaller scale would be infinite.
constexpr float kLeastMagnitude = 0x1p-100f;

__device__ __forceinline__ float scale_of(float largest) {
  return largest < kLeastMagnitude ? 1.0f : __fdiv_rn(largest, 448.0f);
}

// What a group's values are multiplied by before they are rounded.
__device__ __forceinline__ float inverse_of(float scale) { return __fdiv_rn(1.0f, scale); }

__device__ __forceinline__ u32 quantize_pair(float low, float high, float inverse) {
  return narrow_e4m3x2(__fmul_rn(low, inverse), __fmul_rn(high, inverse));
}
