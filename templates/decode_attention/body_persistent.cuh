// Body `tma` (sm_90+), a persistent grid: as many blocks as the device holds at a time, each with an equal
// span of all sequences' tiles (see spans.cuh), found from the lengths on the device. Producers run straight
// on from one item to the next, so that the ring stays full while the others finish one.
#pragma once

#include "templates/common/l2_policy.cuh"
#include "templates/decode_attention/merge.cuh"
#include "templates/decode_attention/ring.cuh"
#include "templates/decode_attention/span_walk.cuh"

// Contiguous KV has `capacity` tokens of every sequence. While the lengths are on their way, a block asks for
// so many tiles, and for its first query, as if all were that long; where they are not, it throws them away.
constexpr bool kGuess = kPage == 0 && kWindow == 0;
constexpr int kTilesAhead = kGuess ? min_of(kStages, max_of(1, 65536 / (2 * kTileBytes))) : 0;

// Of one piece, whose last tile is never among them.
__device__ __forceinline__ int tiles_ahead(const SpanWalk& guess) {
  return guess.done() ? 0 : min_of(kTilesAhead, guess.work().tiles - 1);
}

// The entries of the page table that a sequence has.
__device__ __forceinline__ const i32* pages_of(const i32* page_table, const Work& work, int capacity) {
  return page_table + static_cast<i64>(work.batch) * (capacity / kPageTokens);
}

__device__ __forceinline__ void produce_span(const Producer& producer, const TensorMap& k_map,
                                             const TensorMap& v_map, const i32* page_table,
                                             const i32* lengths, int batch, int kv_heads, int capacity,
                                             u64 policy) {
  Turn turn;
  const auto copy = [&](const Work& work, int tile, i32 block) {
    if (producer.takes_k) copy_tile(producer.k_ring, k_map, turn, work, tile, block, work.length, policy);
    if (producer.takes_v) copy_tile(producer.v_ring, v_map, turn, work, tile, block, work.length, policy);
    turn.advance();
  };
  const SpanWalk guess = SpanWalk::of_equal_lengths(capacity, batch, kv_heads);
  const int ahead = tiles_ahead(guess);
  for (int tile = 0; tile < ahead; ++tile) copy(guess.work(), tile, guess.work().batch);
  SpanWalk walk = SpanWalk::of_block(lengths, batch, kv_heads);
  if (walk.done()) return;
  int tile = walk.matches(guess) ? ahead : 0;
  Work work = walk.work();
  i32 block = find_block(pages_of(page_table, work, capacity), work, 0, work.length);
  while (true) {
    const i32* pages = pages_of(page_table, work, capacity);
    const int last = work.tiles - 1;
    for (; tile < last; ++tile) {
      const i32 next = find_block(pages, work, tile + 1, work.length);
      copy(work, tile, block);
      block = next;
    }
    walk.advance();
    if (walk.done()) break;
    const Work upcoming = walk.work();
    const i32 next = find_block(pages_of(page_table, upcoming, capacity), upcoming, 0, upcoming.length);
    copy(work, last, block);
    work = upcoming;
    block = next;
    tile = 0;
  }
  copy(work, work.tiles - 1, block);
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

// The pieces of a block's span as the warps that compute see them. One thread walks two pieces ahead; it
// keeps the walk here, since registers are for the products.
struct Itinerary {
  SpanWalk walk;
  bool guessed;  // what was asked for before the lengths were known is what is needed
  Work first;
  Work pieces[3];  // piece n in place n % 3; without tiles past the last

  __device__ __forceinline__ void begin(const SpanWalk& from, const SpanWalk& guess) {
    walk = from;
    guessed = from.matches(guess);
    put(0);
    first = pieces[0];
  }

  __device__ __forceinline__ void put(int place) {
    if (walk.done()) {
      pieces[place].tiles = 0;
      return;
    }
    pieces[place] = walk.work();
    walk.advance();
  }
};
static_assert(sizeof(Itinerary) <= kItineraryBytes, "the plan leaves room for it");

// Counts and combines what this block has parts of. That takes two trips to memory, and here no other work
// waits for it.
__device__ __forceinline__ void combine_parts(u8* shared, const Work& first, const Work& last,
                                              const Outputs& outputs) {
  if (last.batch == first.batch && last.kv_head == first.kv_head) {
    if (last.splits > 1) combine_if_last(shared, {last}, outputs);
  } else if (last.splits > 1 || first.splits > 1) {
    combine_if_last(shared, {first, last}, outputs);
  }
}

__device__ __forceinline__ void consume_span(u8* shared, const Element* q, Itinerary& itinerary, Turn turn,
                                             Outputs outputs, const float* k_scale, const float* v_scale,
                                             float scale_log2) {
  if (itinerary.pieces[0].tiles == 0) return;
  const LaneOffsets lanes;
  if (!kGuess || !itinerary.guessed) {
    land_query();  // the guessed one, which must not arrive later
    stage_query(shared, q, itinerary.pieces[0]);
  }
  if (threadIdx.x == 0) itinerary.put(1);
  int here = 0, buffer = 0;
  while (true) {
    const int next = here == 2 ? 0 : here + 1;
    land_query();
    named_barrier_sync(2, kWarps * kWarpSize);
    // Since all have met, nobody needs the piece before this one any more, nor its query.
    if (threadIdx.x == 0) itinerary.put(next == 2 ? 0 : next + 1);
    const Work work = itinerary.pieces[here];
    const Query query(shared_address(shared) + buffer * kQueryBytes, lanes);
    buffer ^= 1;
    if (itinerary.pieces[next].tiles > 0) {
      stage_query(shared + buffer * kQueryBytes, q, itinerary.pieces[next]);
    }
    outputs.v_scale = kv_scale(v_scale, work.kv_head);
    Attention attention;
    attend_tiles(shared, work, query, lanes, attention, turn, scale_log2 * kv_scale(k_scale, work.kv_head));
    finish(shared, attention, work, outputs);
    if (itinerary.pieces[next].tiles == 0) break;
    here = next;
  }
  if (outputs.counters != nullptr) combine_parts(shared, itinerary.first, itinerary.pieces[here], outputs);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    decode_attention(const Element* q, const __grid_constant__ TensorMap k_map,
                     const __grid_constant__ TensorMap v_map, const float* k_scale, const float* v_scale,
                     const i32* page_table, const i32* lengths, const float* sinks, Element* o, float* lse,
                     float* partial_o, float* partial_lse, u32* counters, int capacity, float scale_log2,
                     int evict_first, int batch, int kv_heads) {
  extern __shared__ __align__(1024) u8 shared[];
  const int warp = threadIdx.x / kWarpSize;
  if (warp >= kWarps) {
    const Producer producer(shared_address(shared), k_map, v_map);
    wait_for_predecessor();
    allow_dependent_launch();
    produce_span(producer, k_map, v_map, page_table, lengths, batch, kv_heads, capacity,
                 l2_policy(evict_first));
  } else {
    wait_for_predecessor();
    allow_dependent_launch();
    Itinerary& itinerary = *reinterpret_cast<Itinerary*>(shared + kItineraryOffset);
    const SpanWalk guess = SpanWalk::of_equal_lengths(capacity, batch, kv_heads);
    if (kGuess && !guess.done()) stage_query(shared, q, guess.work());
    if (warp == 0) {
      const SpanWalk walk = SpanWalk::of_block(lengths, batch, kv_heads);
      if (threadIdx.x == 0) itinerary.begin(walk, guess);
    }
    named_barrier_sync(1, kThreads);
    Turn turn;
    if (!itinerary.guessed) discard_tiles(shared_address(shared), tiles_ahead(guess), turn);
    consume_span(shared, q, itinerary, turn, {o, lse, sinks, 1, partial_o, partial_lse, counters}, k_scale,
                 v_scale, scale_log2);
  }
}
