// How blocks learn from each other how many slots of each expert come before theirs, and in all: through the shared
// memory of a cluster, or through global memory behind a barrier over the grid, whose blocks must all run at once.
// Both leave `before` and `layout.counts`.
#pragma once

#include "templates/common/cluster_read.cuh"
#include "templates/common/global_sync.cuh"
#include "templates/router/board.cuh"

constexpr u32 kReadAtOnce = 8;  // counts of other blocks that a thread waits for together

// Zeroed once; every launch leaves the arrivals at zero.
struct GridState {
  u32 arrivals;
  u32 generation;  // launches so far
};

// Another barrier of the cluster must follow before the block ends or changes `own`.
__device__ __forceinline__ void exchange_in_cluster(Board& board) {
  cluster_arrive();
  cluster_wait();
  const u32 rank = cluster_rank(), size = cluster_size();
  for (int e = threadIdx.x; e < kExperts; e += kThreads) {
    u32 before = 0, all = 0;
    for (u32 first = 0; first < size; first += kReadAtOnce) {
      u32 counts[kReadAtOnce];
#pragma unroll
      for (u32 b = 0; b < kReadAtOnce; ++b)
        counts[b] = first + b < size ? read_of_block(&board.own[e], first + b) : 0;
#pragma unroll
      for (u32 b = 0; b < kReadAtOnce; ++b) {
        before += first + b < rank ? counts[b] : 0;
        all += counts[b];
      }
    }
    board.before[e] = before;
    board.layout.counts[e] = int(all);
  }
  __syncthreads();
}

__device__ __forceinline__ void wait_for_grid(GridState* state) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const u32 generation = load_acquire(&state->generation);
    if (add_acquire_release(&state->arrivals, 1) == gridDim.x - 1) {
      state->arrivals = 0;
      store_release(&state->generation, generation + 1);
    } else {
      wait_until_at_least(&state->generation, generation + 1);
    }
  }
  __syncthreads();
}

// Two experts' counts in a word: a block has fewer than 65536 tokens.
__device__ __forceinline__ void store_own_counts(const Board& board, u32* counts) {
  for (int p = threadIdx.x; p < kPairs; p += kThreads) {
    const u32 second = 2 * p + 1 < kExperts ? board.own[2 * p + 1] : 0;
    counts[i64(blockIdx.x) * kPairs + p] = board.own[2 * p] | second << 16;
  }
}

struct PairOfSums {
  u32 low = 0, high = 0;

  __device__ __forceinline__ void add(u32 pair) {
    low += pair & 0xffff;
    high += pair >> 16;
  }
};

__device__ __forceinline__ void add_to_pair(u32* sums, int pair, PairOfSums added) {
  atomicAdd(&sums[2 * pair], added.low);
  if (2 * pair + 1 < kExperts) atomicAdd(&sums[2 * pair + 1], added.high);
}

// Several threads share a pair of experts, and each takes every kSlices-th block.
__device__ __forceinline__ void exchange_in_grid(Board& board, u32* counts, GridState* state) {
  constexpr int kSlices = max_of(1, kThreads / kPairs);
  u32* const all = reinterpret_cast<u32*>(board.layout.counts);
  store_own_counts(board, counts);
  for (int e = threadIdx.x; e < kExperts; e += kThreads) all[e] = board.before[e] = 0;
  wait_for_grid(state);
  const int blocks = int(gridDim.x), own = int(blockIdx.x);
  for (int i = threadIdx.x; i < kPairs * kSlices; i += kThreads) {
    const int pair = i % kPairs;
    PairOfSums before, total;
    for (int first = i / kPairs; first < blocks; first += kSlices * int(kReadAtOnce)) {
      u32 loaded[kReadAtOnce];
#pragma unroll
      for (int b = 0; b < int(kReadAtOnce); ++b) {
        const int block = first + b * kSlices;
        loaded[b] = block < blocks ? __ldcg(&counts[i64(block) * kPairs + pair]) : 0;
      }
#pragma unroll
      for (int b = 0; b < int(kReadAtOnce); ++b) {
        total.add(loaded[b]);
        if (first + b * kSlices < own) before.add(loaded[b]);
      }
    }
    add_to_pair(board.before, pair, before);
    add_to_pair(all, pair, total);
  }
  __syncthreads();
}
