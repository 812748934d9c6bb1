// Stands in for templates/common/reciprocal.cuh on the CPU.
#pragma once

#include "templates/common/reduce.cuh"

__device__ __forceinline__ float reciprocal_fast(float x) { return flush_subnormal(1.0f / flush_subnormal(x)); }
