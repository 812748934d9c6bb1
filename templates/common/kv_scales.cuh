// Scales of keys and values in e4m3, which kernels that share a KV cache must read alike.
#pragma once

#include "templates/common/types.cuh"

// `kHeads`: one scale for each KV head, not one for the whole tensor. KV that is not kNarrow has none.
template <bool kNarrow, bool kHeads>
struct KvScaling {
  // The scale of one KV head's keys or values; 1 without any. A plain load, not through the read-only cache: the
  // previous kernel may write it while this one has begun.
  static __device__ __forceinline__ float at(const float* scales, int kv_head) {
    return kNarrow ? scales[kHeads ? kv_head : 0] : 1.0f;
  }

  // What products of a KV head's keys are multiplied by. If negative, the least product counts most. Never 0, as the
  // scale of a cache of zeros may be, or the product of two small scales: times the -infinity of what a row does not
  // see it would be NaN. Products of fp16 with e4m3 are less than 2^34, so that it makes no difference.
  static __device__ __forceinline__ float logit_factor(float scale_log2, const float* key_scales, int kv_head) {
    const float factor = scale_log2 * at(key_scales, kv_head);
    return kNarrow && fabsf(factor) < 0x1p-100f ? 0x1p-100f : factor;
  }
};
