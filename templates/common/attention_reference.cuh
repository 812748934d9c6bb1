// What the references of decode_attention and prefill_attention round, and write.
//
// Macros: DTYPE; BASELINE (1: what stands between steps is rounded to DTYPE, and outputs are; 0: all is fp32); SOFTCAP.
#pragma once

#include "templates/common/attention.cuh"
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

// A score as it meets the softmax. Capped ones are rounded nowhere: they may be so large that it costs more than all
// that a right kernel does.
__device__ __forceinline__ float score_of(float dot, float scale) {
  return kSoftcap > 0 ? kSoftcap * tanhf(dot * scale / kSoftcap) : rounded(rounded(dot) * scale);
}
