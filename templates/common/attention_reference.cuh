// What the references of decode_attention and prefill_attention round, and write.
//
// Macros: DTYPE; BASELINE (1: what stands between steps is rounded to DTYPE, and outputs are; 0: all is fp32); SOFTCAP.
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/softcap.cuh"

using Element = DTYPE;

#if BASELINE
using Output = Element;
__device__ __forceinline__ float rounded(float value) { return round_through<Element>(value); }
__device__ __forceinline__ Output output(float value) { return Element::from_float(value); }
#else
using Output = float;
__device__ __forceinline__ float rounded(float value) { return value; }
__device__ __forceinline__ Output output(float value) { return value; }
#endif

// A score as it meets the softmax.
__device__ __forceinline__ float softcapped(float score) {
  return kSoftcap > 0 ? rounded(kSoftcap * tanhf(score / kSoftcap)) : score;
}
