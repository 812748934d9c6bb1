// Adds up what the splits of a row found: a warp a row, of one query head after the other.
#pragma once

#include "templates/common/dependent_launch.cuh"
#include "templates/common/reduce.cuh"
#include "templates/prefill_attention/store.cuh"

constexpr int kCombineWarps = 8;

// One row: its splits' outputs lie `stride` rows apart, each weighted by its share of the denominator.
__device__ __forceinline__ void combine_row(const float* partial_o, const float* partial_lse, i64 row, i64 stride,
                                            int splits, float sink, Element* o, float* lse) {
  constexpr int kLaneElements = 2 * ceil_div(kHeadDim, 2 * kWarpSize);
  const int lane = threadIdx.x % kWarpSize;
  const bool has_elements = kHeadDim == kLaneElements * kWarpSize || lane * kLaneElements < kHeadDim;
  float top = sink;
  for (int split = 0; split < splits; ++split) top = max_or_nan(top, partial_lse[row + split * stride]);
  const bool seen = top != minus_infinity();
  float denominator = seen && kSinks ? exp2_fast(sink - top) : 0;
  float sum[kLaneElements] = {};
  for (int split = 0; split < splits && seen; ++split) {
    const float weight = exp2_fast(partial_lse[row + split * stride] - top);
    if (weight == 0) continue;
    denominator += weight;
    const float* const from = partial_o + (row + split * stride) * kHeadDim + lane * kLaneElements;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      if (has_elements) sum[i] = fmaf(from[i], weight, sum[i]);
    }
  }
  const float factor = inverse_of(denominator);
  u32* const to = reinterpret_cast<u32*>(o + lane * kLaneElements);
#pragma unroll
  for (int i = 0; i < kLaneElements; i += 2) {
    if (has_elements) to[i / 2] = Element::pack(sum[i] * factor, sum[i + 1] * factor);
  }
  if (kWantsLse && lane == 0) *lse = denominator == 0 ? minus_infinity() : (top + log2_fast(denominator)) * kLn2;
}

// The grid is (tokens that a sequence has room for, batch).
extern "C" __global__ void __launch_bounds__(kCombineWarps* kWarpSize)
    prefill_attention_combine(const float* partial_o, const float* partial_lse, const i32* q_offsets,
                              const float* sinks, Element* o, float* lse, i64 o_token_stride, i64 o_head_stride,
                              int q_heads, int q_tokens, int splits) {
  allow_dependent_launch();
  wait_for_predecessor();
  const int token = blockIdx.x, sequence = blockIdx.y, tokens = gridDim.x, batch = gridDim.y;
  const int first = max_of(0, q_offsets[sequence]);
  if (token >= cut_to(q_tokens, q_offsets[sequence + 1]) - first) return;
  const i64 stride = static_cast<i64>(batch) * tokens * q_heads, place = first + token;
  for (int head = threadIdx.x / kWarpSize; head < q_heads; head += kCombineWarps) {
    const float sink = kSinks ? sinks[head] * kLog2E : minus_infinity();
    combine_row(partial_o, partial_lse, partial_row(0, batch, sequence, tokens, token, q_heads) + head, stride, splits,
                sink, o + place * o_token_stride + head * o_head_stride,
                kWantsLse ? lse + place * q_heads + head : nullptr);
  }
}
