// The math of a unit: what a worker does with a tile of K and V. Each defines, under the same names,
//   stage_query()  the block's packed rows into shared memory, by the threads named
//   kQueryAsync    whether these have only asked for them (persistent blocks)
//   LaneOffsets    what a lane adds to addresses, computed once
//   Query          the staged rows as the math reads them
//   Attention      score(): S = Q K^T; each_score(): changes S; softmax_tile(): S to P, and the running maximum;
//                  accumulate(): O += P V; store_partial(): the worker's O, maxima and denominators to the merge area
// score() is done with K's sub-tile, and accumulate() with V's, when it returns.
#pragma once

#include "templates/common/softcap.cuh"
#include "templates/decode_attention/shape.cuh"

#if MATH == MATH_MMA16
#include "templates/decode_attention/attend.cuh"
#elif MATH == MATH_SWAP
#include "templates/decode_attention/attend_swap.cuh"
#elif MATH == MATH_WGMMA64
#include "templates/decode_attention/attend_wgmma.cuh"
#elif MATH == MATH_WGMMA_SWAP
#include "templates/decode_attention/attend_wgmma_swap.cuh"
#else
#error MATH is one of the values in shape.cuh
#endif

// Makes S ready for softmax_tile() and returns what that multiplies it by, which is not negative. `logit_factor` as
// KvScaling has it.
__device__ __forceinline__ float prepare_scores(Attention& attention, float logit_factor) {
  if constexpr (kSoftcap > 0) {
    const float factor = logit_factor * (2.0f / kSoftcap);
    attention.each_score([&](float score) { return tanh_half_log2(score * factor); });
    return kSoftcap * kLog2E;
  }
  if constexpr (kNarrow) {
    if (logit_factor < 0) attention.each_score([](float score) { return -score; });
  }
  return fabsf(logit_factor);
}
