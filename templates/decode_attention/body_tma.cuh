// Body `tma` (sm_90+), a grid of splits: each block streams its tiles of one item through the ring. See
// ring.cuh.
#pragma once

#include "templates/common/l2_policy.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/decode_attention/merge.cuh"
#include "templates/decode_attention/prefetch.cuh"

__device__ __forceinline__ void produce(u8* shared, const Inbox& inbox, const TensorMap& k_map, const TensorMap& v_map,
                                        const i32* pages, const i32* lengths, Work& work, int capacity, u64 policy,
                                        bool settled, int tiles_before_wait) {
  const Producer producer(shared_address(shared), k_map, v_map);
  if (!settled) {
    prefetch_tiles(producer, k_map, v_map, pages, lengths, work, capacity, tiles_before_wait);
    begin_after_predecessor();
  }

  const int length = read_settled(lengths + work.batch);
  if constexpr (kWindow > 0) work.measure(clamp_length(length, capacity));
  const FirstBlocks first(pages, work, 0, kWindow > 0 ? work.length : capacity);
  RingPlace<kStages> state;
  const auto copy = [&](int tile, i32 block, int end) {
    if (producer.takes_k) copy_tile(producer.k_ring, k_map, state, work, tile, block, end, policy);
    if (producer.takes_v) copy_tile(producer.v_ring, v_map, state, work, tile, block, end, policy);
    state.advance();
  };
  int begun = settled ? 0 : early_tiles(work, capacity);
  for (int tile = 0; tile < begun; ++tile) copy(tile, work.batch, capacity);
  work.measure(clamp_length(needed_now(length), capacity));
  // Once, or, if `settled`, once before the wait and once behind it.
  const int tiles = min_of(kStages, work.tiles);
  int end = settled ? work.settled_tiles(tiles) : tiles;
#pragma unroll 1
  for (bool more = true; more;) {
    first.each([&](int tile, i32 block) {
      if (tile >= begun && tile < end) copy(tile, block, work.length);
    });
    more = end < tiles;
    if (more) prefetch_tile(producer, k_map, v_map, work, end, find_block<true>(pages, work, end, work.length));
    begin_after_predecessor();
    begun = end;
    end = tiles;
  }
  // From here on a copy waits for the other warps, and they have waited for the cluster.
  if (inbox.exists()) inbox.wait_for_others();
  i32 block = find_block(pages, work, kStages, work.length);
  for (int tile = kStages; tile < work.tiles; ++tile) {
    const i32 next = find_block(pages, work, tile + 1, work.length);
    copy(tile, block, work.length);
    block = next;
  }
}

__device__ __forceinline__ void consume(u8* shared, const Work& work, const Outputs& outputs, int tiles_asked,
                                        float scale_log2) {
  const u32 base = shared_address(shared);
  const Ring k_ring(base, 0), v_ring(base, 1);
  const LaneOffsets lanes;
  const Query query(base, lanes);
  Attention attention;
  RingPlace<kStages> state;
  attend_tiles(shared, work, query, lanes, attention, state, scale_log2);
  // Tiles that were asked for before the length was known must land before the ring is used again.
  for (int tile = work.tiles; tile < tiles_asked; ++tile) {
    mbarrier_wait(k_ring.full(state.index), state.parity);
    mbarrier_wait(v_ring.full(state.index), state.parity);
    state.advance();
  }
  finish(shared, attention, work, outputs);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    decode_attention(const Element* q, const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map,
                     const float* k_scale, const float* v_scale, const i32* page_table, const i32* lengths,
                     const float* sinks, Element* o, float* lse, float* partial_o, float* partial_lse, u32* counters,
                     i64 q_sequence_stride, i64 q_token_stride, i64 q_head_stride, i64 o_sequence_stride,
                     i64 o_token_stride, i64 o_head_stride, i64 page_table_stride, int capacity, float scale_log2,
                     int flags, int tiles_before_wait) {
  u8* const shared = dynamic_shared();
  const bool settled = settled_now(flags);
  Work work;
  const Inbox inbox(shared);
  if (inbox.exists()) inbox.open(work);
  if (threadIdx.x / kWarpSize >= kWarps) {
    produce(shared, inbox, k_map, v_map, page_table + work.batch * page_table_stride, lengths, work, capacity,
            l2_policy(flags & kEvictFirst), settled, tiles_before_wait);
  } else {
    if (inbox.exists()) inbox.wait_for_others();
    read_early(q, o, lse, partial_o, q_sequence_stride, q_head_stride, o_sequence_stride, o_head_stride);
    begin_after_predecessor();
    const int length = lengths[work.batch];
    stage_query(shared, {q, {q_sequence_stride, q_token_stride, q_head_stride}}, work, threadIdx.x, kWarps * kWarpSize);
    work.measure(clamp_length(needed_now(length), capacity));
    named_barrier_sync(1, kThreads);
    const RowStrides o_strides = {o_sequence_stride, o_token_stride, o_head_stride};
    consume(shared, work,
            {o, o_strides, lse, sinks, Scaling::at(v_scale, work.kv_head), partial_o, partial_lse, counters},
            settled ? 0 : early_tiles(work, capacity), Scaling::logit_factor(scale_log2, k_scale, work.kv_head));
  }
}
