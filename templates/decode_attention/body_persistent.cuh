// Body `tma` (sm_90+), a persistent grid: as many blocks as the device holds at a time, each with an equal
// span of all sequences' tiles (see spans.cuh). The first producer finds its way from the lengths and tells
// the others; producers run straight on from one item to the next, so that the ring stays full while the
// warps that compute finish one.
#pragma once

#include "templates/common/l2_policy.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/decode_attention/merge.cuh"
#include "templates/decode_attention/ring.cuh"
#include "templates/decode_attention/segment_ring.cuh"
#include "templates/decode_attention/span_walk.cuh"

// Contiguous KV has `capacity` tokens of every sequence. While the lengths are on their way, a block asks for
// so many tiles as if all were that long; where they are not, it passes over them.
constexpr int kEarlyTiles = kPage == 0 && kWindow == 0 ? min_of(kStages, max_of(1, 65536 / (2 * kTileBytes))) : 0;

// Early tiles belong to one segment, and its last tile is never among them.
__device__ __forceinline__ int early_tiles(const SpanWalk& guess) {
  if constexpr (kEarlyTiles == 0) return 0;
  return guess.done() ? 0 : min_of(kEarlyTiles, guess.work().tiles - 1);
}

// The arguments of both producers' copies.
struct Copies {
  const Producer& producer;
  const TensorMap& k_map;
  const TensorMap& v_map;
  const i32* page_table;
  i64 page_table_stride;
  int capacity;
  u64 policy;
  RingPlace<kStages> state;

  __device__ __forceinline__ void tile(const Work& work, int tile, i32 block) {
    if (producer.takes_k) copy_tile(producer.k_ring, k_map, state, work, tile, block, work.length, policy);
    if (producer.takes_v) copy_tile(producer.v_ring, v_map, state, work, tile, block, work.length, policy);
    state.advance();
  }

  __device__ __forceinline__ void ahead(const SpanWalk& guess, int tiles) {
    for (int i = 0; i < tiles; ++i) tile(guess.work(), i, guess.work().batch);
  }

  // Tiles from `begin` on, at most `most` of them and as many as the ring has stages. Returns the tile that follows.
  __device__ __forceinline__ int some(const Work& work, int begin, int most) {
    const FirstBlocks first(page_table + work.batch * page_table_stride, work, begin, work.length);
    const int end = min_of(work.tiles, begin + min_of(most, kStages));
    first.each([&](int stage, i32 block) {
      if (begin + stage < end) tile(work, begin + stage, block);
    });
    return max_of(begin, end);
  }

  // The first tiles of a segment, before the wait: none that holds the sequence's newest tokens.
  __device__ __forceinline__ int before_wait(const Work& work) {
    return some(work, 0, work.settled_tiles(min_of(work.tiles, kStages)));
  }

  // All tiles from `begin` on.
  __device__ __forceinline__ void segment(const Work& work, int begin) {
    const i32* pages = page_table + work.batch * page_table_stride;
    int i = some(work, begin, kStages);
    for (i32 block = find_block(pages, work, i, work.length); i < work.tiles; ++i) {
      const i32 next = find_block(pages, work, i + 1, work.length);
      tile(work, i, block);
      block = next;
    }
  }
};

// The first producer.
__device__ __forceinline__ void lead(Copies copies, const SegmentRing& segments, const Queries& queries,
                                     const i32* lengths, int batch, int kv_heads, bool settled) {
  const SpanWalk guess = SpanWalk::of_equal_lengths(copies.capacity, batch, kv_heads);
  int asked = settled ? 0 : early_tiles(guess);
  copies.ahead(guess, asked);
  SpanWalk walk(lengths, copies.capacity, batch, kv_heads, settled);
  int skip = walk.matches(guess) ? 0 : asked;
  asked -= skip;
  RingPlace<kSegments> state;
  bool more = walk.enter();
  if (settled) {
    if (more) asked = copies.before_wait(walk.work());
    begin_after_predecessor();
  }
  // The ring's free stages fill while the first queries are on their way, which publish() may wait for.
  if (more) asked = copies.some(walk.work(), asked, kStages - asked - skip);
  for (; more; more = !walk.done()) {
    Work work = walk.work();
    work.skip = skip;
    segments.publish(state, work, queries);
    copies.segment(work, asked);
    asked = skip = 0;
    walk.advance();
    state.advance();
  }
  Work none;
  none.tiles = 0;
  none.skip = skip;
  segments.publish(state, none, queries);
}

// The second producer, where there is one.
__device__ __forceinline__ void follow(Copies copies, const SegmentRing& segments, const i32* lengths, int batch,
                                       int kv_heads, bool settled) {
  int asked = 0;
  if (settled) {
    SpanWalk walk(lengths, copies.capacity, batch, kv_heads, settled);
    if (walk.enter()) asked = copies.before_wait(walk.work());
    begin_after_predecessor();
  } else {
    const SpanWalk guess = SpanWalk::of_equal_lengths(copies.capacity, batch, kv_heads);
    asked = early_tiles(guess);
    copies.ahead(guess, asked);
  }
  for (RingPlace<kSegments> state;; state.advance()) {
    const Work work = segments.read(state);
    segments.release(state);
    if (work.tiles == 0) break;
    copies.segment(work, work.skip > 0 ? 0 : asked);
    asked = 0;
  }
}

// Passes over tiles that were asked for in vain.
__device__ __forceinline__ void discard_tiles(u32 shared, int tiles, RingPlace<kStages>& state) {
  const Ring k_ring(shared, 0), v_ring(shared, 1);
  for (int tile = 0; tile < tiles; ++tile) {
    mbarrier_wait(k_ring.full(state.index), state.parity);
    mbarrier_wait(v_ring.full(state.index), state.parity);
    if (threadIdx.x % kWarpSize == 0) {
      mbarrier_arrive(k_ring.empty(state.index));
      mbarrier_arrive(v_ring.empty(state.index));
    }
    state.advance();
  }
}

__device__ __forceinline__ void consume_segments(u8* shared, const SegmentRing& segments, Outputs outputs,
                                                 const float* k_scale, const float* v_scale, float scale_log2) {
  const LaneOffsets lanes;
  RingPlace<kStages> state;
  for (RingPlace<kSegments> segment;; segment.advance()) {
    const Work work = segments.read(segment);
    discard_tiles(shared_address(shared), work.skip, state);
    if (work.tiles == 0) break;
    const Query query(shared_address(shared) + segment.index * kQueryBytes, lanes);
    outputs.v_scale = Scaling::at(v_scale, work.kv_head);
    Attention attention;
    attend_tiles(shared, work, query, lanes, attention, state,
                 Scaling::logit_factor(scale_log2, k_scale, work.kv_head));
    segments.release(segment);
    finish(shared, attention, work, outputs);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    decode_attention(const Element* q, const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map,
                     const float* k_scale, const float* v_scale, const i32* page_table, const i32* lengths,
                     const float* sinks, Element* o, float* lse, float* partial_o, float* partial_lse, u32* counters,
                     i64 q_sequence_stride, i64 q_token_stride, i64 q_head_stride, i64 o_sequence_stride,
                     i64 o_token_stride, i64 o_head_stride, i64 page_table_stride, int capacity, float scale_log2,
                     int flags, int batch, int kv_heads) {
  u8* const shared = dynamic_shared();
  const SegmentRing segments(shared);
  if (threadIdx.x / kWarpSize >= kWarps) {
    if (threadIdx.x == kWarps * kWarpSize) segments.initialize();
    const Producer producer(shared_address(shared), k_map, v_map);
    if constexpr (kProducers > 1) named_barrier_sync(3, kProducers * kWarpSize);
    const bool settled = settled_now(flags);
    if (!settled) begin_after_predecessor();
    const Copies copies{producer, k_map, v_map, page_table, page_table_stride, capacity, l2_policy(flags & kEvictFirst),
                        {}};
    if (producer.takes_k) {
      lead(copies, segments, {q, {q_sequence_stride, q_token_stride, q_head_stride}}, lengths, batch, kv_heads,
           settled);
    } else {
      follow(copies, segments, lengths, batch, kv_heads, settled);
    }
  } else {
    read_early(o, lse, partial_o, o_sequence_stride, o_head_stride);
    begin_after_predecessor();
    named_barrier_sync(1, kThreads);
    const RowStrides o_strides = {o_sequence_stride, o_token_stride, o_head_stride};
    consume_segments(shared, segments, {o, o_strides, lse, sinks, 1, partial_o, partial_lse, counters}, k_scale,
                     v_scale, scale_log2);
  }
}
