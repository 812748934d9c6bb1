// The counts that a dispatch to other GPUs needs: the slots of each expert, and which tokens go to which rank. Rank r
// has the r-th of kRanks equal ranges of experts; a token goes once to each rank that has an expert of its own.
#pragma once

#include "templates/router/grid.cuh"
#include "templates/router/route.cuh"

constexpr int kColumns = max_of(1, kRanks);  // of in_rank
constexpr int kExpertsOfRank = kExperts / kColumns, kCounters = kExperts + kColumns;

struct RankArguments {
  int* counts;           // [kExperts]: slots
  int* tokens_per_rank;  // [kRanks]
  u8* in_rank;           // [tokens, kRanks]: 1 for a token that goes there
  int* block_counters;   // scratch [gridDim.x, kCounters]
};

// In dynamic shared memory.
struct Counters {
  u32 of_block[kCounters];  // slots of each expert, then tokens of each rank
  int is_last;
};

__device__ __forceinline__ Counters& counters_memory() { return *reinterpret_cast<Counters*>(dynamic_shared()); }

__device__ __forceinline__ bool goes_to(const Id* experts, int rank) {
  bool goes = false;
#pragma unroll
  for (int j = 0; j < kTopK; ++j) {
    const int expert = int(experts[j]);
    goes |= (!kCounted || expert >= 0) && expert / kExpertsOfRank == rank;
  }
  return goes;
}

// Each thread takes a token and rank at a time.
__device__ __forceinline__ void mark_ranks(const RankArguments& a, Counters& counters, const Id* ids, int first,
                                           int last) {
  for (int i = threadIdx.x; i < (last - first) * kColumns; i += kThreads) {
    const i64 token = first + i / kColumns;
    const int rank = i % kColumns;
    const bool goes = goes_to(ids + token * kTopK, rank);
    a.in_rank[token * kColumns + rank] = goes;
    if (goes) atomicAdd(&counters.of_block[kExperts + rank], 1u);
  }
}

__device__ __forceinline__ void store_counter(const RankArguments& a, int counter, int value) {
  (counter < kExperts ? a.counts[counter] : a.tokens_per_rank[counter - kExperts]) = value;
}

// The last block to store its counters adds up those of all.
__device__ __forceinline__ void add_up_counters(const RankArguments& a, Counters& counters, GridState* state) {
  for (int c = threadIdx.x; c < kCounters; c += kThreads)
    a.block_counters[i64(blockIdx.x) * kCounters + c] = int(counters.of_block[c]);
  if (!arrives_last(state, counters.is_last)) return;
  for (int c = threadIdx.x; c < kCounters; c += kThreads) {
    int sum = 0;
#pragma unroll 8
    for (int block = 0; block < int(gridDim.x); ++block) sum += a.block_counters[i64(block) * kCounters + c];
    store_counter(a, c, sum);
  }
  if (threadIdx.x == 0) state->blocks_done = 0;
}

__device__ __forceinline__ void route_and_count(const RouteArguments& rows, const RankArguments& a, GridState* state,
                                                int first, int last) {
  Counters& counters = counters_memory();
  for (int c = threadIdx.x; c < kCounters; c += kThreads) counters.of_block[c] = 0;
  __syncthreads();
  route(rows, first, last, [&](int, int, int expert) { atomicAdd(&counters.of_block[expert], 1u); });
  __syncthreads();
  mark_ranks(a, counters, rows.ids, first, last);
  __syncthreads();
  if (gridDim.x > 1) {
    add_up_counters(a, counters, state);
    return;
  }
  for (int c = threadIdx.x; c < kCounters; c += kThreads) store_counter(a, c, int(counters.of_block[c]));
}
