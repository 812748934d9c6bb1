// Rows of O and of lse on their way to memory.
#pragma once

#include "templates/common/quad.cuh"
#include "templates/prefill_attention/attend.cuh"

struct Outputs {
  Element* o;  // [query token, query head] by strides, head_dim elements each
  i64 token_stride;
  i64 head_stride;
  float* lse;          // [query tokens, query heads]; if kWantsLse
  const float* sinks;  // [query heads]; if kSinks
  // With splits: [splits, sequence, token, query head], each split's own O as fp32, and the base-2 logarithms of its
  // denominators.
  float* partial_o;
  float* partial_lse;
  const float* v_scale;  // if kNarrow
};

// The row's denominators, and of e4m3 the values' scale.
__device__ __forceinline__ void finish_row(Attention& attention, int half, bool sink_joins, const Work& work,
                                           const Outputs& outputs, int head) {
  attention.finish(half, sink_joins, outputs.sinks, head);
  if constexpr (kNarrow) attention.scale_output(half, Scaling::at(outputs.v_scale, work.kv_head));
}

__device__ __forceinline__ void store(Attention& attention, const Work& work, const Outputs& outputs, int q_heads) {
  constexpr int kWholeQuads = kHeadDim / 32 * 4;  // columns of tiles that four lanes exchange; the rest they do not
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int token = attention.token_of(work, half);
    const int head = work.head + attention.row(half) % kHeadsInRows;
    finish_row(attention, half, true, work, outputs, head);
    const bool mine = token < work.q_length;
    const i64 place = work.q_first + token;
    Element* const o = outputs.o + place * outputs.token_stride + head * outputs.head_stride;
#pragma unroll
    for (int j = 0; j < kWholeQuads; j += 4) {
      u32 words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = attention.output_pair(half, j + i);
      transpose_quad(words);
      if (mine)
        reinterpret_cast<uint4*>(o + 8 * j)[threadIdx.x % 4] = make_uint4(words[0], words[1], words[2], words[3]);
    }
#pragma unroll
    for (int j = kWholeQuads; j < kHeadDim / 8; ++j) {
      if (mine) reinterpret_cast<u32*>(o + 8 * j)[threadIdx.x % 4] = attention.output_pair(half, j);
    }
    if (kWantsLse && mine && threadIdx.x % 4 == 0) outputs.lse[place * q_heads + head] = attention.lse(half);
  }
}

// The number of the first of a split's rows of token `token`; `tokens` are those that a sequence has room for.
__device__ __forceinline__ i64 partial_row(int split, int sequences, int sequence, int tokens, int token, int q_heads) {
  return ((static_cast<i64>(split) * sequences + sequence) * tokens + token) * q_heads;
}

__device__ __forceinline__ void store_partial(Attention& attention, const Work& work, const Outputs& outputs,
                                              const Batch& batch) {
  const int q_heads = batch.kv_heads * kGroup;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int token = attention.token_of(work, half);
    const int head = work.head + attention.row(half) % kHeadsInRows;
    finish_row(attention, half, false, work, outputs, head);
    if (token >= work.q_length) continue;
    const i64 row = partial_row(work.split, batch.batch, work.sequence, batch.blocks * kTokens, token, q_heads) + head;
    float2* const o = reinterpret_cast<float2*>(outputs.partial_o + row * kHeadDim);
#pragma unroll
    for (int j = 0; j < kHeadDim / 8; ++j) o[4 * j + threadIdx.x % 4] = attention.output_values(half, j);
    if (threadIdx.x % 4 == 0) outputs.partial_lse[row] = attention.lse_log2(half);
  }
}
