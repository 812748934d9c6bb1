#pragma once

#include "templates/common/convert.cuh"

__device__ __forceinline__ uint2 widen_e4m3x4(u32 word) {
  return make_uint2(widen_e4m3x2(word), widen_e4m3x2(word >> 16));
}
