// The arguments of qk_norm_rope and of its reference, and where heads lie.
//
// Macros: Q_HEADS, KV_HEADS, HEAD_DIM, PAGE (slots of a page; 0: keys go to rows by token, and values nowhere),
// HEAD_SCALES (1: heads have scales of their own), Element, Cached (of pages: Element, or E4m3 with
// value = e4m3 * scale), Table (of cos and sin).
#pragma once

#include "templates/common/convert.cuh"

constexpr int kHeadDim = HEAD_DIM, kQHeads = Q_HEADS, kKvHeads = KV_HEADS, kPage = PAGE;
constexpr bool kPaged = PAGE > 0, kNarrow = kPaged && sizeof(Cached) == 1;
constexpr int kHeads = kQHeads + (kPaged ? 2 : 1) * kKvHeads;  // of a token, that are written

// Elements from one index to the next.
struct HeadStrides {
  i64 row, head;
};
struct CacheStrides {
  i64 page, slot, head;
};

template <typename Out, typename CacheOut>
struct HeadArguments {
  const Element *qkv, *q_weight, *k_weight;
  const Table *cos, *sin;
  const i64* slots;
  Out *q, *k;
  CacheOut *k_cache, *v_cache;
  const float *k_scale, *v_scale;
  i64 qkv_row, cos_row, sin_row;
  HeadStrides of_q, of_k;
  CacheStrides of_k_cache, of_v_cache;

  __device__ __forceinline__ static bool is_value(int head) { return head >= kQHeads + kKvHeads; }
  __device__ __forceinline__ static bool is_cached(int head) { return kPaged && head >= kQHeads; }
  // The number of a head of keys or values among its own.
  __device__ __forceinline__ static int own(int head) { return head - kQHeads - (is_value(head) ? kKvHeads : 0); }

  // The place of a head of a token, query heads first, then those of keys, that is not cached.
  __device__ __forceinline__ Out* in_rows(i64 token, int head) const {
    return head < kQHeads ? q + token * of_q.row + head * of_q.head : k + token * of_k.row + own(head) * of_k.head;
  }
  // The place of one that is; null if it goes nowhere.
  __device__ __forceinline__ CacheOut* in_cache(i64 token, int head) const {
    const i64 slot = slots[token];
    if (slot < 0) return nullptr;
    return is_value(head) ? in_pages(v_cache, of_v_cache, slot, own(head))
                          : in_pages(k_cache, of_k_cache, slot, own(head));
  }
  __device__ __forceinline__ static CacheOut* in_pages(CacheOut* cache, const CacheStrides& strides, i64 slot,
                                                       int head) {
    constexpr int kSlots = kPaged ? kPage : 1;
    return cache + slot / kSlots * strides.page + slot % kSlots * strides.slot + head * strides.head;
  }
  __device__ __forceinline__ float scale(int head) const {
    const int at = HEAD_SCALES ? own(head) : 0;
    return is_value(head) ? v_scale[at] : k_scale[at];
  }
};

#define HEAD_PARAMETERS(Out, CacheOut)                                                                            \
  const Element *qkv, const Element *q_weight, const Element *k_weight, const Table *cos, const Table *sin,       \
      const i64 *slots, Out *q, Out *k, CacheOut *k_cache, CacheOut *v_cache, const float *k_scale,               \
      const float *v_scale, i64 qkv_row, i64 cos_row, i64 sin_row, i64 q_row, i64 q_head, i64 k_row, i64 k_head,  \
      i64 k_cache_page, i64 k_cache_slot, i64 k_cache_head, i64 v_cache_page, i64 v_cache_slot, i64 v_cache_head, \
      i32 tokens, float eps
#define HEAD_ARGUMENTS                                                                                             \
  {                                                                                                                \
    qkv, q_weight, k_weight, cos, sin, slots, q, k, k_cache, v_cache, k_scale, v_scale, qkv_row, cos_row, sin_row, \
        {q_row, q_head}, {k_row, k_head}, {k_cache_page, k_cache_slot, k_cache_head}, {                            \
      v_cache_page, v_cache_slot, v_cache_head                                                                     \
    }                                                                                                              \
  }
