// The bits of all tokens of a cluster in the shared memory of each of its blocks: every block counts and places by
// itself, after one barrier. As on the board of board.cuh, a slot's place in its segment is the number of bits before.
#pragma once

#include "templates/common/cluster_bits.cuh"
#include "templates/router/board.cuh"

// In dynamic shared memory, each behind the one before.
struct ClusterBoard {
  Layout& layout;
  Id* ids;         // [slots of the block]
  float* weights;  // [slots of the block]
  u32* bits;       // [words, kExperts]
  int words;

  __device__ __forceinline__ ClusterBoard(int tokens_of_block, int tokens)
      : layout(*reinterpret_cast<Layout*>(dynamic_shared())),
        ids(reinterpret_cast<Id*>(&layout + 1)),
        weights(reinterpret_cast<float*>(ids + tokens_of_block * kTopK)),
        bits(reinterpret_cast<u32*>(weights + tokens_of_block * kTopK)),
        words(ceil_div(tokens, kBits)) {}

  __device__ __forceinline__ void clear() {
#pragma unroll 1
    for (int i = threadIdx.x; i < words * kExperts; i += kThreads) bits[i] = 0;
  }

  __device__ __forceinline__ void mark(int token, int expert) {
    const u32 rank = cluster_rank(), size = cluster_size();
    u32* const word = &bits[token / kBits * kExperts + expert];
#pragma unroll 1
    for (u32 i = 0; i < size; ++i)
      or_into_block(word, rank + i < size ? rank + i : rank + i - size, 1u << token % kBits);
  }

  // Of the tokens before `token`.
  __device__ __forceinline__ int count_before(int token, int expert) const {
    int count = 0;
    for (int w = 0; w < token / kBits; ++w) count += __popc(bits[w * kExperts + expert]);
    return count + __popc(bits[token / kBits * kExperts + expert] & ((1u << token % kBits) - 1));
  }

  __device__ __forceinline__ int count(int expert) const {
    int count = 0;
    for (int w = 0; w < words; ++w) count += __popc(bits[w * kExperts + expert]);
    return count;
  }
};

// Ids and weights go to shared memory first: the barrier would wait for stores to global memory.
__device__ __forceinline__ void route_on_cluster(const RouteArguments& rows, ClusterBoard& board,
                                                 const ChunkedTokens& tokens) {
  RouteArguments here = rows;
  here.ids = board.ids - i64(tokens.first) * kTopK;
  here.weights = board.weights - i64(tokens.first) * kTopK;
  route(here, tokens.first, tokens.last, [&](int token, int, int expert) { board.mark(token, expert); });
  cluster_arrive();
  __syncthreads();
  const i64 first = i64(tokens.first) * kTopK;
#pragma unroll 1
  for (int i = threadIdx.x; i < tokens.slots(); i += kThreads) {
    rows.ids[first + i] = board.ids[i];
    rows.weights[first + i] = board.weights[i];
  }
  cluster_wait();
}

__device__ __forceinline__ void place_on_cluster(const PlaceArguments& a, const ClusterBoard& board,
                                                 const ChunkedTokens& tokens) {
#pragma unroll 1
  for (int i = threadIdx.x; i < tokens.slots(); i += kThreads) {
    const int expert = int(board.ids[i]);
    const bool routed = !kCounted || expert >= 0;
    int place = -1;
    if (routed) {
      const int position = board.count_before(tokens.first + i / kTopK, expert);
      if (position < a.capacity) place = board.layout.offsets[expert] + position;
    }
    store_place(a, tokens.first * kTopK + i, expert, routed, place);
  }
}
