// 1/x within one unit in the last place, by one instruction.
//
// tests/simt/device/templates/common/reciprocal.cuh holds the same for the CPU.
#pragma once

#include "templates/common/types.cuh"

__device__ __forceinline__ float reciprocal_fast(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
