// Stands in for templates/common/reduce.cuh on the CPU: the same, but for PTX. Like the GPU's, these take and give
// zero for numbers below the smallest normal one.
#pragma once

#include "templates/common/types.cuh"

__device__ __forceinline__ float flush_subnormal(float x) {
  return fabsf(x) < 1.17549435e-38f ? copysignf(0.0f, x) : x;
}

__device__ __forceinline__ float exp2_fast(float x) { return flush_subnormal(exp2f(flush_subnormal(x))); }

__device__ __forceinline__ float log2_fast(float x) { return flush_subnormal(log2f(flush_subnormal(x))); }

#define exp2_fast ptx_exp2_fast
#define log2_fast ptx_log2_fast
#include_next "templates/common/reduce.cuh"
#undef exp2_fast
#undef log2_fast
