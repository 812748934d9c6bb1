// Counts of all blocks for a second kernel: each block stores its own, and the last one to do so adds them up.
#pragma once

#include "templates/router/arrival.cuh"
#include "templates/router/place.cuh"

__device__ __forceinline__ void store_block_counts(const PlaceArguments& a, const Tally& tally) {
  for (int e = threadIdx.x; e < kExperts; e += kThreads)
    a.block_counts[i64(blockIdx.x) * kExperts + e] = tally.layout.counts[e];
}

// Turns the blocks' counts into how many slots of the expert come in blocks before; totals go to `tally.layout`.
__device__ __forceinline__ void add_up_blocks(const PlaceArguments& a, Tally& tally) {
  for (int e = threadIdx.x; e < kExperts; e += kThreads) {
    int sum = 0;
#pragma unroll 8
    for (int block = 0; block < int(gridDim.x); ++block) {
      int& count = a.block_counts[i64(block) * kExperts + e];
      const int own = count;
      count = sum;
      sum += own;
    }
    tally.layout.counts[e] = sum;
  }
  __syncthreads();
}

// The block's slots must be tallied. The last block lays out the segments of all.
__device__ __forceinline__ void lay_out_by_last(const PlaceArguments& a, Tally& tally, GridState* state) {
  store_block_counts(a, tally);
  if (!arrives_last(state, tally.layout.flag)) return;
  add_up_blocks(a, tally);
  lay_out(tally.layout, a.capacity);
  store_layout(a, tally.layout, 0, 1);
  if (threadIdx.x == 0) state->blocks_done = 0;
}

// The second kernel: places the slots of this block, whose segments are laid out in global memory.
template <typename Segments>
__device__ __forceinline__ void place_after_count(const PlaceArguments& a, const Segments& segments, SlotRange slots) {
  Tally& tally = tally_memory();
  tally_block(tally, segments, slots);
  load_layout(a, tally.layout);
  add_before(tally, [&](int expert) { return a.block_counts[i64(blockIdx.x) * kExperts + expert]; });
  __syncthreads();
  place_slots(a, tally, segments, slots);
  pad_last(a, tally.layout);
}
