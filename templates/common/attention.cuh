// The tensors of kernels of attention, and what their rows' sums become.
#pragma once

#include "templates/common/types.cuh"

// Elements between neighbours of KV. A block is a page, or a sequence if KV is contiguous.
struct KvStrides {
  i64 block;
  i64 head;
  i64 token;
};

// Elements between neighbouring rows of queries or outputs.
struct RowStrides {
  i64 sequence;
  i64 token;
  i64 head;
};

// A sequence's length, which may be anything, within the tokens that its KV or page table has room for.
__device__ __forceinline__ int clamp_length(int length, int capacity) { return max_of(0, min_of(length, capacity)); }

// The factor of a row whose probabilities sum to `sum`; a row that sees nothing becomes 0, NaN stays NaN.
__device__ __forceinline__ float inverse_of(float sum) { return sum == 0 ? 0.0f : 1.0f / sum; }

// The scales of keys and values in e4m3, which kernels that share a KV cache must read alike.
// `kHeads`: one scale for each KV head, not one for the whole tensor. KV that is not kNarrow has none.
template <bool kNarrow, bool kHeads>
struct KvScaling {
  // The scale of one KV head's keys or values; 1 without any. A plain load, not through the read-only cache: the
  // previous kernel may write it while this one has begun.
  static __device__ __forceinline__ float at(const float* scales, int kv_head) {
    return kNarrow ? scales[kHeads ? kv_head : 0] : 1.0f;
  }

  // The factor of the products of a KV head's keys. If negative, the least product counts most. Never 0, as the
  // scale of a cache of zeros may be, or the product of two small scales: times the -infinity of what a row does not
  // see it would be NaN. Products of fp16 with e4m3 are less than 2^34, so that it makes no difference.
  static __device__ __forceinline__ float logit_factor(float scale_log2, const float* key_scales, int kv_head) {
    const float factor = scale_log2 * at(key_scales, kv_head);
    return kNarrow && fabsf(factor) < 0x1p-100f ? 0x1p-100f : factor;
  }
};
