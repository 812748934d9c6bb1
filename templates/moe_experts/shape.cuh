// What moe_experts and its reference agree on.
//
// Macros: DTYPE (Bf16 or Fp16), NARROW (1: x and weights are e4m3 with scales), PACKED (1: weights are mxfp4, as
// common/mxfp4.cuh has them), BIASED (1: gpt-oss' activation, biases, and rows of gate and up in turn), HAS_UP and
// HAS_DOWN (1: the problem has this product), X_PLACES and OUT_PLACES (1: a row of x, or of the output, for each place
// and not for each token), N_MAJOR (1: weights are [experts, K, N]), HIDDEN, INTERMEDIATE, EXPERTS, TOP_K.
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/types.cuh"

using Element = DTYPE;  // of the output

constexpr bool kNarrow = NARROW, kPacked = PACKED, kBiased = BIASED;
constexpr bool kHasUp = HAS_UP, kHasDown = HAS_DOWN, kOfPlaces = X_PLACES, kToPlaces = OUT_PLACES;
constexpr bool kNMajor = N_MAJOR;
constexpr int kScaleGroup = 128;  // values of a row of x, and rows and columns of weights, that share a scale

using Operand = Either<kNarrow, E4m3, Element>;             // of x, and of weights that are not packed
constexpr bool kQuantizes = kNarrow && kHasUp && kHasDown;  // what lies between the products
using Between = Either<kQuantizes, E4m3, Element>;
constexpr int kOperandBytes = sizeof(Operand);

constexpr int kHidden = HIDDEN, kIntermediate = INTERMEDIATE, kExperts = EXPERTS, kTopK = TOP_K;
static_assert((kHasUp || kOfPlaces) && (kHasDown || kToPlaces), "what lies between the products has places");
static_assert(sizeof(Element) == 2 && kHidden % 8 == 0 && kIntermediate % 8 == 0, "the problem keeps to it");
static_assert(!kPacked || (!kNarrow && kHidden % 32 == 0 && kIntermediate % 32 == 0), "whole blocks of mxfp4");
static_assert(!kNMajor || (!kNarrow && !kPacked), "16-bit weights");
static_assert(!kNarrow || (kHidden % kScaleGroup == 0 && kIntermediate % kScaleGroup == 0), "whole scales");

// The token that a place's row belongs to; -1 for padding.
__device__ __forceinline__ int token_of(int slot, int tokens) {
  return static_cast<u32>(slot) < static_cast<u32>(tokens) * kTopK ? slot / kTopK : -1;
}

// Places of padding have rows of zeros, if anybody may read what becomes of them.
constexpr bool kZeroPadding = !kOfPlaces && kToPlaces;

// SwiGLU; or gpt-oss', whose constants are the model's.
__device__ __forceinline__ float gated(float gate, float up) {
  if constexpr (kBiased) {
    const float at_most = fminf(gate, 7.0f);
    return __fdividef(at_most, 1.0f + __expf(-1.702f * at_most)) * (fminf(fmaxf(up, -7.0f), 7.0f) + 1.0f);
  } else {
    return __fdividef(gate, 1.0f + __expf(-gate)) * up;
  }
}

// A row's share of a token: one rounding each, in the order of the slots.
__device__ __forceinline__ float add_row(float weight, float value, float sum) { return __fmaf_rn(weight, value, sum); }
