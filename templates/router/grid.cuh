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

// Adds what comes in blocks before to what this block's warps are preceded by.
__device__ __forceinline__ void add_blocks_before(const PlaceArguments& a, Tally& tally) {
  for (int e = threadIdx.x; e < kExperts; e += kThreads) {
    const u32 sum = u32(a.block_counts[i64(blockIdx.x) * kExperts + e]);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) tally.before[w][e] += sum;
  }
}
