// Body `tma` (sm_90+), a grid of splits: each block streams its tiles of one item through the ring. See
// ring.cuh.
#pragma once

#include "templates/common/l2_policy.cuh"
#include "templates/decode_attention/ahead.cuh"
#include "templates/decode_attention/merge.cuh"

__device__ __forceinline__ void produce(u8* shared, const Inbox& inbox, const TensorMap& k_map,
                                        const TensorMap& v_map, const i32* page_table, const i32* lengths,
                                        Work& work, int capacity, u64 policy, int tiles_before_wait) {
  const Producer producer(shared_address(shared), k_map, v_map);
  const i32* pages = page_table + static_cast<i64>(work.batch) * (capacity / kPageTokens);
  ask_ahead(producer, k_map, v_map, pages, lengths, work, capacity, tiles_before_wait);
  wait_for_predecessor();
  allow_dependent_launch();

  const int length = lengths[work.batch];
  if constexpr (kWindow > 0) work.measure(length);
  i32 block = find_block(pages, work, 0, kWindow > 0 ? length : capacity);
  Turn turn;
  const int ahead = tiles_ahead(work, capacity);
  for (int tile = 0; tile < ahead; ++tile) {
    if (producer.takes_k) copy_tile(producer.k_ring, k_map, turn, work, tile, block, capacity, policy);
    if (producer.takes_v) copy_tile(producer.v_ring, v_map, turn, work, tile, block, capacity, policy);
    turn.advance();
  }
  work.measure(needed_now(length));
  for (int tile = ahead; tile < work.tiles; ++tile) {
    // From here on a copy waits for the other warps, and they have waited for the cluster.
    if (tile == kStages && inbox.exists()) inbox.wait_for_others();
    const i32 next = find_block(pages, work, tile + 1, work.length);
    if (producer.takes_k) copy_tile(producer.k_ring, k_map, turn, work, tile, block, work.length, policy);
    if (producer.takes_v) copy_tile(producer.v_ring, v_map, turn, work, tile, block, work.length, policy);
    block = next;
    turn.advance();
  }
  if (work.tiles <= kStages && inbox.exists()) inbox.wait_for_others();
}

__device__ __forceinline__ void consume(u8* shared, const Work& work, const Outputs& outputs, int capacity,
                                        float scale_log2) {
  const u32 base = shared_address(shared);
  const Ring k_ring(base, 0), v_ring(base, 1);
  const LaneOffsets lanes;
  const Query query(base, lanes);
  Attention attention;
  Turn turn;
  attend_tiles(shared, work, query, lanes, attention, turn, scale_log2);
  // What was asked for before the length was known must land before the ring is used again.
  for (int tile = work.tiles; tile < tiles_ahead(work, capacity); ++tile) {
    mbarrier_wait(k_ring.full(turn.slot), turn.parity);
    mbarrier_wait(v_ring.full(turn.slot), turn.parity);
    turn.advance();
  }
  finish(shared, attention, work, outputs);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    decode_attention(const Element* q, const __grid_constant__ TensorMap k_map,
                     const __grid_constant__ TensorMap v_map, const float* k_scale, const float* v_scale,
                     const i32* page_table, const i32* lengths, const float* sinks, Element* o, float* lse,
                     float* partial_o, float* partial_lse, u32* counters, int capacity, float scale_log2,
                     int evict_first, int tiles_before_wait) {
  extern __shared__ __align__(1024) u8 shared[];
  Work work;
  const Inbox inbox(shared);
  if (inbox.exists()) inbox.open(work);
  if (threadIdx.x / kWarpSize >= kWarps) {
    produce(shared, inbox, k_map, v_map, page_table, lengths, work, capacity, l2_policy(evict_first),
            tiles_before_wait);
  } else {
    if (inbox.exists()) inbox.wait_for_others();
    wait_for_predecessor();
    allow_dependent_launch();
    const int length = lengths[work.batch];
    stage_query(shared, q, work, threadIdx.x, kWarps * kWarpSize);
    work.measure(needed_now(length));
    named_barrier_sync(1, kThreads);
    consume(shared, work, {o, lse, sinks, kv_scale(v_scale, work.kv_head), partial_o, partial_lse, counters},
            capacity, scale_log2 * kv_scale(k_scale, work.kv_head));
  }
}
