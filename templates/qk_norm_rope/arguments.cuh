// The arguments of qk_norm_rope and of its reference, and where heads lie.
//
// Macros: Q_HEADS, KV_HEADS, HEAD_DIM, PAGE (slots of a page; 0: keys go to rows by token, and values nowhere),
// Element, Table (of cos and sin).
#pragma once

#include "templates/common/convert.cuh"

constexpr int kHeadDim = HEAD_DIM, kQHeads = Q_HEADS, kKvHeads = KV_HEADS, kPage = PAGE;
constexpr bool kPaged = PAGE > 0;
constexpr int kHeads = kQHeads + (kPaged ? 2 : 1) * kKvHeads;  // of a token, that are written

// Elements from one index to the next.
struct HeadStrides {
  i64 row, head;
};
struct CacheStrides {
  i64 page, slot, head;
};

template <typename Out>
struct HeadArguments {
  const Element *qkv, *q_weight, *k_weight;
  const Table *cos, *sin;
  const i64* slots;
  Out *q, *k, *k_cache, *v_cache;
  i64 qkv_row, cos_row, sin_row;
  HeadStrides of_q, of_k;
  CacheStrides of_k_cache, of_v_cache;

  __device__ __forceinline__ static Out* in_cache(Out* cache, const CacheStrides& strides, i64 slot, int head) {
    constexpr int kSlots = kPaged ? kPage : 1;
    return slot < 0 ? nullptr
                    : cache + slot / kSlots * strides.page + slot % kSlots * strides.slot + head * strides.head;
  }
  // The place of a head of a token, query heads first, then those of keys and of values; null if it goes nowhere.
  __device__ __forceinline__ Out* target(i64 token, int head) const {
    if (head < kQHeads) return q + token * of_q.row + head * of_q.head;
    if (!kPaged) return k + token * of_k.row + (head - kQHeads) * of_k.head;
    const i64 slot = slots[token];
    return head < kQHeads + kKvHeads ? in_cache(k_cache, of_k_cache, slot, head - kQHeads)
                                     : in_cache(v_cache, of_v_cache, slot, head - kQHeads - kKvHeads);
  }
};

#define HEAD_PARAMETERS(Out)                                                                                          \
  const Element *qkv, const Element *q_weight, const Element *k_weight, const Table *cos, const Table *sin,           \
      const i64 *slots, Out *q, Out *k, Out *k_cache, Out *v_cache, i64 qkv_row, i64 cos_row, i64 sin_row, i64 q_row, \
      i64 q_head, i64 k_row, i64 k_head, i64 k_cache_page, i64 k_cache_slot, i64 k_cache_head, i64 v_cache_page,      \
      i64 v_cache_slot, i64 v_cache_head, i32 tokens, float eps
#define HEAD_ARGUMENTS                                                                                            \
  {                                                                                                               \
    qkv, q_weight, k_weight, cos, sin, slots, q, k, k_cache, v_cache, qkv_row, cos_row, sin_row, {q_row, q_head}, \
        {k_row, k_head}, {k_cache_page, k_cache_slot, k_cache_head}, {                                            \
      v_cache_page, v_cache_slot, v_cache_head                                                                    \
    }                                                                                                             \
  }
