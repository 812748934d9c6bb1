// Four e4m3 at once to fp16; see convert.cuh for two.
#pragma once

#include "templates/common/convert.cuh"

// The four e4m3 of `word` as f16, exactly: those of its lower half in x. Before sm_89 NaN comes out as 480. From a
// whole word, because the conversion takes either half of a register, which a shift would have to move first.
__device__ __forceinline__ uint2 widen_e4m3x4(u32 word) {
#if __CUDA_ARCH__ >= 890
  uint2 result;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, low;\ncvt.rn.f16x2.e4m3x2 %1, high;\n}\n"
      : "=r"(result.x), "=r"(result.y)
      : "r"(word));
  return result;
#else
  return make_uint2(widen_e4m3x2(word), widen_e4m3x2(word >> 16));
#endif
}
