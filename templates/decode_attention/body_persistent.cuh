// Body `tma` (sm_90+), a persistent grid: as many blocks as the device holds at a time, each with an equal
// span of all sequences' tiles (see spans.cuh). The first producer finds its way from the lengths and tells
// the others; producers run straight on from one item to the next, so that the ring stays full while the
// warps that compute finish one.
#pragma once

#include "templates/common/l2_policy.cuh"
#include "templates/decode_attention/merge.cuh"
#include "templates/decode_attention/piece_ring.cuh"
#include "templates/decode_attention/ring.cuh"
#include "templates/decode_attention/span_walk.cuh"

// Contiguous KV has `capacity` tokens of every sequence. While the lengths are on their way, a block asks for
// so many tiles as if all were that long; where they are not, it passes over them.
constexpr int kTilesAhead =
    kPage == 0 && kWindow == 0 ? min_of(kStages, max_of(1, 65536 / (2 * kTileBytes))) : 0;

// Of one piece, whose last tile is never among them.
__device__ __forceinline__ int tiles_ahead(const SpanWalk& guess) {
  return guess.done() ? 0 : min_of(kTilesAhead, guess.work().tiles - 1);
}

// What both producers need to copy.
struct Copies {
  const Producer& producer;
  const TensorMap& k_map;
  const TensorMap& v_map;
  const i32* page_table;
  int capacity;
  u64 policy;
  Turn turn;

  __device__ __forceinline__ void tile(const Work& work, int tile, i32 block) {
    if (producer.takes_k) copy_tile(producer.k_ring, k_map, turn, work, tile, block, work.length, policy);
    if (producer.takes_v) copy_tile(producer.v_ring, v_map, turn, work, tile, block, work.length, policy);
    turn.advance();
  }

  __device__ __forceinline__ void ahead(const SpanWalk& guess, int tiles) {
    for (int i = 0; i < tiles; ++i) tile(guess.work(), i, guess.work().batch);
  }

  // From tile `first` on.
  __device__ __forceinline__ void piece(const Work& work, int first) {
    const i32* pages = page_table + static_cast<i64>(work.batch) * (capacity / kPageTokens);
    i32 block = find_block(pages, work, first, work.length);
    for (int i = first; i < work.tiles; ++i) {
      const i32 next = find_block(pages, work, i + 1, work.length);
      tile(work, i, block);
      block = next;
    }
  }
};

// The first producer.
__device__ __forceinline__ void lead(Copies copies, const PieceRing& pieces, const Element* q,
                                     const i32* lengths, int batch, int kv_heads) {
  const SpanWalk guess = SpanWalk::of_equal_lengths(copies.capacity, batch, kv_heads);
  int asked = tiles_ahead(guess);
  copies.ahead(guess, asked);
  SpanWalk walk(lengths, batch, kv_heads);
  int skip = walk.matches(guess) ? 0 : asked;
  asked -= skip;
  PieceTurn turn;
  for (bool more = walk.enter(); more; more = !walk.done()) {
    Work work = walk.work();
    work.skip = skip;
    pieces.publish(turn, work, q);
    copies.piece(work, asked);
    asked = skip = 0;
    walk.advance();
    turn.advance();
  }
  Work none;
  none.tiles = 0;
  none.skip = skip;
  pieces.publish(turn, none, q);
}

// The second producer, where there is one.
__device__ __forceinline__ void follow(Copies copies, const PieceRing& pieces, int batch, int kv_heads) {
  const SpanWalk guess = SpanWalk::of_equal_lengths(copies.capacity, batch, kv_heads);
  int asked = tiles_ahead(guess);
  copies.ahead(guess, asked);
  for (PieceTurn turn;; turn.advance()) {
    const Work work = pieces.read(turn);
    pieces.release(turn);
    if (work.tiles == 0) break;
    copies.piece(work, work.skip > 0 ? 0 : asked);
    asked = 0;
  }
}

// Passes over tiles that were asked for in vain.
__device__ __forceinline__ void discard_tiles(u32 shared, int tiles, Turn& turn) {
  const Ring k_ring(shared, 0), v_ring(shared, 1);
  for (int tile = 0; tile < tiles; ++tile) {
    mbarrier_wait(k_ring.full(turn.slot), turn.parity);
    mbarrier_wait(v_ring.full(turn.slot), turn.parity);
    if (threadIdx.x % kWarpSize == 0) {
      mbarrier_arrive(k_ring.empty(turn.slot));
      mbarrier_arrive(v_ring.empty(turn.slot));
    }
    turn.advance();
  }
}

__device__ __forceinline__ void consume_pieces(u8* shared, const PieceRing& pieces, Outputs outputs,
                                               const float* k_scale, const float* v_scale, float scale_log2) {
  const LaneOffsets lanes;
  Turn turn;
  for (PieceTurn piece;; piece.advance()) {
    const Work work = pieces.read(piece);
    discard_tiles(shared_address(shared), work.skip, turn);
    if (work.tiles == 0) break;
    const Query query(shared_address(shared) + piece.place * kQueryBytes, lanes);
    outputs.v_scale = kv_scale(v_scale, work.kv_head);
    Attention attention;
    attend_tiles(shared, work, query, lanes, attention, turn, scale_log2 * kv_scale(k_scale, work.kv_head));
    pieces.release(piece);
    finish(shared, attention, work, outputs);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    decode_attention(const Element* q, const __grid_constant__ TensorMap k_map,
                     const __grid_constant__ TensorMap v_map, const float* k_scale, const float* v_scale,
                     const i32* page_table, const i32* lengths, const float* sinks, Element* o, float* lse,
                     float* partial_o, float* partial_lse, u32* counters, int capacity, float scale_log2,
                     int evict_first, int batch, int kv_heads) {
  extern __shared__ __align__(1024) u8 shared[];
  const PieceRing pieces(shared);
  if (threadIdx.x / kWarpSize >= kWarps) {
    if (threadIdx.x == kWarps * kWarpSize) pieces.initialize();
    const Producer producer(shared_address(shared), k_map, v_map);
    if constexpr (kProducers > 1) named_barrier_sync(3, kProducers * kWarpSize);
    wait_for_predecessor();
    allow_dependent_launch();
    const Copies copies{producer, k_map, v_map, page_table, capacity, l2_policy(evict_first), {}};
    if (producer.takes_k) {
      lead(copies, pieces, q, lengths, batch, kv_heads);
    } else {
      follow(copies, pieces, batch, kv_heads);
    }
  } else {
    wait_for_predecessor();
    allow_dependent_launch();
    named_barrier_sync(1, kThreads);
    consume_pieces(shared, pieces, {o, lse, sinks, 1, partial_o, partial_lse, counters}, k_scale, v_scale,
                   scale_log2);
  }
}
