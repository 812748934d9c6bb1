// Body `relay` as a persistent grid: as many clusters as the GPU has room for, each with an equal span of all tiles
// (span_walk.cuh). One warp finds the way from the lengths and tells the others (segments.cuh). It asks for tiles
// straight on from one segment to the next, so that the ring stays full while warpgroups 1 and 2 write what they have.
//
// What is split lies in two slots a cluster; combine_spans.cuh puts it together.
#pragma once

#include "templates/mla_decode/body_relay.cuh"
#include "templates/mla_decode/segments.cuh"
#include "templates/mla_decode/span_walk.cuh"

static_assert(!kGathers && kParts == 1, "the copy engine runs ahead of the segments, and parts are put together apart");

struct Pages {
  const i32* table;
  i64 row;
};

// The way through the span. Called by one warp.
__device__ __forceinline__ void lead(const Relay& relay, const Segments& segments, const Place& own,
                                     const TensorMap& kv, const Pages& pages, SpanWalk walk, LedItem* led) {
  const u64 policy = l2_policy(kItems == 1);  // what is read once leaves L2 to partial results
  RingPlace<kSegments> segment;
  RingPlace<kStages> place;
  LedItem last = {0, 0, 0, 0};
  for (; !walk.done(); walk.advance()) {
    const Work work = walk.work(own.row);
    last = walk.led();
    segments.publish(segment, work);
    produce(relay, own, kv, pages.table + work.sequence * pages.row, work, policy, place);
  }
  Work none;
  none.rows = none.tiles = 0;
  segments.publish(segment, none);
  if (own.row == 0 && threadIdx.x % kWarpSize == 0) *led = last;
}

// Called by warpgroup 0. Before a segment's last softmax the next one is read, so that its rows are on their way; no
// further, because the others may need that tile to come to what follows.
__device__ __forceinline__ void score_segments(const Relay& relay, const Segments& segments, const Element* q,
                                               const RowStrides& strides, float scale) {
  RingPlace<kSegments> segment;
  RingPlace<kStages> place;
  RingPlace<1> query;
  Scores scores(scale);
  bool asked = false;
  for (Work work = segments.read_with_tiles(segment); work.rows > 0;) {
    if (!asked) scores.read_query(q, strides, work);
    scores.begin(work);
    mbarrier_wait(segments.query_full(), query.parity);
    query.advance();
    Work next;
    for (int tile = 0; tile < work.tiles; ++tile) {
      const int first = (work.first_tile + tile) * kTile;
      const bool last = tile + 1 == work.tiles;
      scores.multiply(relay, place);
      if (last) {
        mbarrier_arrive(segments.query_empty());
        next = segments.read(segment);
        asked = next.tiles > 0;
        if (asked) scores.read_query(q, strides, next);
      }
      if (work.length - first < kTile) clear_tail(relay, place.index, work.length - first);
      scores.hand_on(relay, place.index, first, work.length, 0);
      if (last) scores.finish(relay.inverse(place.index), relay.logarithms(place.index), 1.0f);
      mbarrier_arrive(relay.scored(place.index));
      place.advance();
    }
    work = next.tiles > 0 || next.rows == 0 ? next : segments.read_with_tiles(segment);
  }
}

extern "C" __global__ void __launch_bounds__(kBlockThreads, 1)
    mla_decode_spans(const Element* q, const __grid_constant__ TensorMap kv, const i32* pages, const i32* lengths,
                     Element* o, float* lse, float* partial_o, float* partial_lse, LedItem* led_items, i64 q_sequence,
                     i64 q_token, i64 q_head, i64 o_sequence, i64 o_token, i64 o_head, i64 page_row, int capacity,
                     int sequences, int overhead, float scale) {
  const Relay relay(dynamic_shared());
  const Segments segments(relay);
  if (threadIdx.x == kMathThreads) {
    tma_prefetch_descriptor(kv);
    segments.initialize();
  }
  begin(relay.shared);
  wait_for_predecessor();
  allow_dependent_launch();
  const RowStrides q_strides = {q_sequence, q_token, q_head};
  const Place own;
  const int warpgroup = threadIdx.x / 128;
  if (warpgroup == 3) {
    give_registers<kCopyRegisters>();
    if (threadIdx.x < kMathThreads + kWarpSize) {
      lead(relay, segments, own, kv, {pages, page_row},
           SpanWalk(lengths, capacity, sequences, overhead, blockIdx.y, gridDim.y), led_items + blockIdx.y);
    } else {
      bring_queries(relay, segments, q, q_strides, static_cast<int>(threadIdx.x) - kMathThreads - kWarpSize);
    }
  } else if (warpgroup == 0) {
    give_registers<kScoreRegisters>();
    score_segments(relay, segments, q, q_strides, scale);
  } else {
    take_registers<kOutputRegisters>();
    const int column = (warpgroup - 1) * kColumns;
    const Outputs outputs = {o, lse, partial_o, partial_lse, {o_sequence, o_token, o_head}};
    RingPlace<kSegments> segment;
    RingPlace<kStages> place;
    Output output;
    for (Work work = segments.read(segment); work.rows > 0; work = segments.read(segment)) {
      output.add_segment(relay, own, work, outputs, column, place);
    }
  }
  // No block ends before the others have stopped writing to it.
  __syncwarp();
  if constexpr (kCluster > 1) cluster_arrive(), cluster_wait();
}
