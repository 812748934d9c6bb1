// Reductions across lanes, and the base-2 exponential and logarithm that softmax runs on.
#pragma once

#include "templates/common/types.cuh"

// Factors from natural logarithms to those of base 2, and back.
constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

__device__ __forceinline__ float exp2_fast(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ __forceinline__ float log2_fast(float x) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// The greater of two, and NaN if either is: fmaxf would drop it.
__device__ __forceinline__ float max_or_nan(float a, float b) { return b > a || b != b ? b : a; }

// Over the `kLanes` neighbouring lanes (a power of two) that share a row; every lane gets the result.
template <int kLanes>
__device__ __forceinline__ float max_across(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, distance));
  }
  return value;
}

template <int kLanes>
__device__ __forceinline__ float sum_across(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  }
  return value;
}

// Over the lanes that are equal modulo 4: those that share a column of an mma.sync accumulator.
__device__ __forceinline__ float max_across_rows(float value) {
#pragma unroll
  for (int distance = 4; distance < kWarpSize; distance *= 2) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, distance));
  }
  return value;
}

__device__ __forceinline__ float sum_across_rows(float value) {
#pragma unroll
  for (int distance = 4; distance < kWarpSize; distance *= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  }
  return value;
}
