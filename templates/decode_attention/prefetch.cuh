// Asking L2 for a block's first tiles while the caller's previous kernel still runs (sm_90+): memory is idle
// while that one ends, and the block's first copies find their tiles near.
//
// A prefetch returns nothing, so it has no part in the order of memory: what the previous kernel stores
// afterwards is what a copy after griddepcontrol.wait brings. The length and the pages that say what to ask
// for may be stale. They are hints, read past L1, which would keep them, and forgotten: where they are wrong,
// the wrong tiles are asked for, and a page that does not exist lies outside the tensor map.
#pragma once

#include "templates/common/dependent_launch.cuh"
#include "templates/decode_attention/ring.cuh"

__device__ __forceinline__ void prefetch_box(const TensorMap& map, int row, int head, i32 block) {
  unrolled<kBoxCopies>([&](int chunk) { tma_prefetch_5d(map, chunk * kChunkElements, row, 0, head, block); });
}

// A tile of the block, by a producer warp; `block` is where this lane's box lies.
__device__ __forceinline__ void prefetch_tile(const Producer& producer, const TensorMap& k_map, const TensorMap& v_map,
                                              const Work& work, int tile, i32 block) {
  const int box = threadIdx.x % kWarpSize, token = work.first_token + tile * work.step + box * kBoxTokens;
  if (box >= kBoxes || token >= work.length) return;
  const int row = box_row(token);
  if (producer.takes_k) prefetch_box(k_map, row, work.kv_head, block);
  if (producer.takes_v) prefetch_box(v_map, row, work.kv_head, block);
}

// The first `tiles` tiles of the block.
__device__ __forceinline__ void prefetch_tiles(const Producer& producer, const TensorMap& k_map, const TensorMap& v_map,
                                               const i32* pages, const i32* lengths, Work work, int capacity,
                                               int tiles) {
  if (tiles == 0) return;
  // Contiguous KV has `capacity` tokens of every sequence, and without a window its tiles lie where they lie
  // whatever the length.
  work.measure(kPage == 0 && kWindow == 0 ? capacity : clamp_length(read_hint(lengths + work.batch), capacity));
  const int box = threadIdx.x % kWarpSize;
  const auto token_of = [&](int tile) { return work.first_token + tile * work.step + box * kBoxTokens; };
  const auto wanted = [&](int tile) {
    return tile < min_of(tiles, work.tiles) && box < kBoxes && token_of(tile) < work.length;
  };
  constexpr int kBatch = 4;  // look-ups under way at a time
  for (int first = 0; first < min_of(tiles, work.tiles); first += kBatch) {
    i32 blocks[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      blocks[i] = work.batch;
      if (kPage > 0 && wanted(first + i)) blocks[i] = read_hint(pages + token_of(first + i) / kPageTokens);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (first + i < min_of(tiles, work.tiles)) prefetch_tile(producer, k_map, v_map, work, first + i, blocks[i]);
    }
  }
}
