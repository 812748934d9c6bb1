// The bits of a cluster's tokens in the shared memory of each of its blocks: every block counts and places by itself,
// after one barrier. As on the board of board.cuh, a slot's place in its segment is the number of bits before. More
// than kRoundTokens tokens are taken in rounds, once to count and once more to place.
#pragma once

#include "templates/common/cluster_bits.cuh"
#include "templates/router/board.cuh"

constexpr int kRoundTokens = 256;

// In dynamic shared memory, each behind the one before.
struct ClusterBoard {
  Layout& layout;
  Id* ids;         // [slots of the block in a round]
  float* weights;  // [slots of the block in a round]
  u32* bits;       // [words, kExperts], of a round
  int* sums;       // [kExperts], if there are several rounds: slots of all, later of the rounds before
  int block_size, tokens, words;

  __device__ __forceinline__ ClusterBoard(int tokens_of_block, int all_tokens)
      : layout(*reinterpret_cast<Layout*>(dynamic_shared())),
        ids(reinterpret_cast<Id*>(&layout + 1)),
        weights(reinterpret_cast<float*>(ids + tokens_of_block * kTopK)),
        bits(reinterpret_cast<u32*>(weights + tokens_of_block * kTopK)),
        block_size(tokens_of_block),
        tokens(all_tokens),
        words(ceil_div(min_of(all_tokens, kRoundTokens), kBits)) {
    sums = reinterpret_cast<int*>(bits + words * kExperts);
  }

  __device__ __forceinline__ int rounds() const { return ceil_div(tokens, kRoundTokens); }
  // This block's tokens of a round.
  __device__ __forceinline__ ChunkedTokens own(int round) const {
    const int begin = round * kRoundTokens, end = min_of(begin + kRoundTokens, tokens);
    const int first = min_of(begin + int(cluster_rank()) * block_size, end);
    return {first, min_of(first + block_size, end)};
  }

  __device__ __forceinline__ void clear() {
#pragma unroll 1
    for (int i = threadIdx.x; i < words * kExperts; i += kThreads) bits[i] = 0;
  }

  // Once all blocks are done with the round before.
  __device__ __forceinline__ void clear_for_next_round() {
    cluster_arrive();
    cluster_wait();
    clear();
    cluster_arrive();
    cluster_wait();
  }

  // `token` counts from the round's first.
  __device__ __forceinline__ void mark(int token, int expert) {
    const u32 rank = cluster_rank(), size = cluster_size();
    u32* const word = &bits[token / kBits * kExperts + expert];
#pragma unroll 1
    for (u32 i = 0; i < size; ++i)
      or_into_block(word, rank + i < size ? rank + i : rank + i - size, 1u << token % kBits);
  }

  // Of the round's tokens before `token`.
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

  // Adds the round's counts to `sums`.
  __device__ __forceinline__ void add_up(bool is_first) {
#pragma unroll 1
    for (int e = threadIdx.x; e < kExperts; e += kThreads) sums[e] = (is_first ? 0 : sums[e]) + count(e);
  }
};

// On a board that is clear. Ids and weights go to shared memory first: the barrier would wait for stores to global
// memory.
__device__ __forceinline__ void route_on_cluster(const RouteArguments& rows, ClusterBoard& board, int round) {
  const ChunkedTokens own = board.own(round);
  const i64 first = i64(own.first) * kTopK;
  RouteArguments here = rows;
  here.ids = board.ids - first;
  here.weights = board.weights - first;
  route(here, own.first, own.last,
        [&](int token, int, int expert) { board.mark(token - round * kRoundTokens, expert); });
  cluster_arrive();
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < own.slots(); i += kThreads) {
    rows.ids[first + i] = board.ids[i];
    rows.weights[first + i] = board.weights[i];
  }
  cluster_wait();
}

// Leaves the last round's bits on the board, and in `sums` the counts of all if there are several.
__device__ __forceinline__ void route_rounds(const RouteArguments& rows, ClusterBoard& board) {
  const int rounds = board.rounds();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    if (round > 0) board.clear_for_next_round();
    route_on_cluster(rows, board, round);
    if (rounds > 1) board.add_up(round == 0);
  }
  if (rounds > 1) __syncthreads();
}

// The bits of a round that was routed before.
__device__ __forceinline__ void mark_again(const Id* ids, ClusterBoard& board, int round) {
  const ChunkedTokens own = board.own(round);
  const i64 first = i64(own.first) * kTopK;
#pragma unroll 1
  for (int i = threadIdx.x; i < own.slots(); i += kThreads) {
    const Id expert = board.ids[i] = ids[first + i];
    if (expert >= 0) board.mark(own.first - round * kRoundTokens + i / kTopK, int(expert));
  }
  cluster_arrive();
  cluster_wait();
}

__device__ __forceinline__ void place_round(const PlaceArguments& a, const ClusterBoard& board, int round,
                                            bool has_before) {
  const ChunkedTokens own = board.own(round);
#pragma unroll 1
  for (int i = threadIdx.x; i < own.slots(); i += kThreads) {
    const int expert = int(board.ids[i]);
    const bool routed = !kCounted || expert >= 0;
    int place = -1;
    if (routed) {
      int position = board.count_before(own.first - round * kRoundTokens + i / kTopK, expert);
      if (has_before) position += board.sums[expert];
      if (position < a.capacity) place = board.layout.offsets[expert] + position;
    }
    store_place(a, own.first * kTopK + i, expert, routed, place);
  }
}

// Once segments are laid out.
__device__ __forceinline__ void place_rounds(const Id* ids, const PlaceArguments& a, ClusterBoard& board) {
  const int rounds = board.rounds();
  if (rounds == 1) return place_round(a, board, 0, false);
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    board.clear_for_next_round();
    mark_again(ids, board, round);
    place_round(a, board, round, round > 0);
    __syncthreads();
    board.add_up(round == 0);
    __syncthreads();
  }
}
