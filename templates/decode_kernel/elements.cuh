// What the kernel and its reference agree on: element types, and what is written.
//
// Macros: DTYPE (F32, Bf16 or Fp16), WRITE_ALL (1: y = a*x + b; 0: one f32 sum of a*x + b a chunk).
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/types.cuh"

struct F32 {
  float value;

  static __device__ __forceinline__ float to_float(F32 element) { return element.value; }
  static __device__ __forceinline__ F32 from_float(float value) { return {value}; }
};

using Element = DTYPE;
constexpr bool kWriteAll = WRITE_ALL;
constexpr int kChunk = 1024;  // elements; kernels/decode_kernel.cc has it too
