// What moe_experts and its reference agree on.
//
// Macros: DTYPE (Bf16 or Fp16), HIDDEN, INTERMEDIATE, EXPERTS, TOP_K.
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/types.cuh"

using Element = DTYPE;

constexpr int kHidden = HIDDEN, kIntermediate = INTERMEDIATE, kExperts = EXPERTS, kTopK = TOP_K;
static_assert(sizeof(Element) == 2 && kHidden % 8 == 0 && kIntermediate % 8 == 0, "the problem keeps to it");

// The token that a place's row belongs to; -1 for padding.
__device__ __forceinline__ int token_of(int slot, int tokens) {
  return static_cast<u32>(slot) < static_cast<u32>(tokens) * kTopK ? slot / kTopK : -1;
}

// SwiGLU.
__device__ __forceinline__ float gated(float gate, float up) {
  return __fdividef(gate, 1.0f + __expf(-gate)) * up;
}

// A row's share of a token: one rounding each, in the order of the slots.
__device__ __forceinline__ float add_row(float weight, float value, float sum) {
  return __fmaf_rn(weight, value, sum);
}
