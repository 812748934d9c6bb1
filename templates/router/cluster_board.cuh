// The experts of a cluster's tokens in the shared memory of each of its blocks, which send them to each other: every
// block counts and places by itself. As on the board of board.cuh, a slot's place in its segment is the number of bits
// before. More than kRoundTokens tokens are taken in rounds, once to count and once more to place.
#pragma once

#include "templates/common/cluster_inbox.cuh"
#include "templates/router/board.cuh"
#include "templates/router/route.cuh"

constexpr int kRoundTokens = kChunkTokens;
// A token's experts as they are sent: so many u16 of them, in words that go together.
constexpr int kIdsOfRow = max_of(2, kSlotsOfSum), kWordsOfRow = kIdsOfRow / 2;
constexpr int kWordsAtOnce = min_of(kWordsOfRow, 4), kSends = kWordsOfRow / kWordsAtOnce;
static_assert(kSends * kWordsAtOnce == kWordsOfRow);

// In dynamic shared memory, each behind the one before.
struct ClusterBoard {
  u16* ids;    // [tokens of a round, kIdsOfRow]
  u64* inbox;  // of ids
  Layout& layout;
  u32* bits;  // [words, kExperts], of a round
  int* sums;  // [kExperts], if there are several rounds: slots of all, later of the rounds before
  int block_size, tokens, words;

  __device__ __forceinline__ ClusterBoard(int tokens_of_block, int all_tokens)
      : ids(reinterpret_cast<u16*>(dynamic_shared())),
        inbox(reinterpret_cast<u64*>(ids + (min_of(all_tokens, kRoundTokens) + 3) / 4 * 4 * kIdsOfRow)),
        layout(*reinterpret_cast<Layout*>(inbox + 1)),
        bits(reinterpret_cast<u32*>(&layout + 1)),
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
  // A round's tokens that are routed.
  __device__ __forceinline__ int live_of(int round, int live) const {
    return min_of(max_of(live - round * kRoundTokens, 0), kRoundTokens);
  }

  __device__ __forceinline__ void clear() {
#pragma unroll 1
    for (int i = threadIdx.x; i < words * kExperts; i += kThreads) bits[i] = 0;
  }

  // Comes before anything is sent.
  __device__ __forceinline__ void prepare() {
    if (threadIdx.x == 0) inbox_init(inbox);
    clear();
    __syncthreads();
    cluster_arrive_relaxed();
    cluster_wait();
  }

  // Waits until all blocks are done with the round before.
  __device__ __forceinline__ void prepare_next_round() {
    cluster_arrive();
    cluster_wait();
    clear();
    __syncthreads();
  }

  // `token` counts from the round's first, as below.
  __device__ __forceinline__ void keep(int token, int slot, int expert) { ids[token * kIdsOfRow + slot] = u16(expert); }

  // Sends a token's experts to all blocks, this one included. `sharers` lanes of a warp call it, which have kept them.
  __device__ __forceinline__ void send(int token, bool present, int lane, int sharers) {
    __syncwarp();
    const int size = int(cluster_size());
    if (!present || size == 1) return;
    const u32* const words = reinterpret_cast<const u32*>(ids + token * kIdsOfRow);
#pragma unroll 1
    for (int rank = lane; rank < size; rank += sharers) {
#pragma unroll
      for (int i = 0; i < kSends; ++i) send_words<kWordsAtOnce>(words + i * kWordsAtOnce, u32(rank), inbox);
    }
  }

  // One thread, once for each exchange.
  __device__ __forceinline__ void expect(int live) {
    if (cluster_size() > 1) inbox_expect(inbox, u32(live * kIdsOfRow * sizeof(u16)));
  }

  // Waits for all experts of the `exchange`-th exchange, and sets a bit for each.
  __device__ __forceinline__ void mark(int exchange, int live) {
    if (cluster_size() > 1) {
      inbox_wait(inbox, u32(exchange));
    } else {
      __syncthreads();
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < live * kTopK; i += kThreads) {
      const int token = i / kTopK, expert = ids[token * kIdsOfRow + i % kTopK];
      atomicOr(&bits[token / kBits * kExperts + expert], 1u << token % kBits);
    }
    __syncthreads();
  }

  __device__ __forceinline__ int count(int expert) const { return count_bits(bits, words, expert); }

  // Adds the round's counts to `sums`.
  __device__ __forceinline__ void add_up(bool is_first) {
#pragma unroll 1
    for (int e = threadIdx.x; e < kExperts; e += kThreads) sums[e] = (is_first ? 0 : sums[e]) + count(e);
  }
};

// The board must be clear.
__device__ __forceinline__ void route_on_cluster(const RouteArguments& rows, ClusterBoard& board, int round) {
  const ChunkedTokens own = board.own(round);
  const int begin = round * kRoundTokens, live = board.live_of(round, rows.live);
  if (threadIdx.x == 0) board.expect(live);
  route(
      rows, own.first, own.last, [&](int token, int slot, int expert) { board.keep(token - begin, slot, expert); },
      [&](int token, bool present, Lane lane) { board.send(token - begin, present, lane.lane, kLanes); });
  board.mark(round, live);
}

// Leaves the last round's bits on the board, and in `sums` the counts of all if there are several.
__device__ __forceinline__ void route_rounds(const RouteArguments& rows, ClusterBoard& board) {
  const int rounds = board.rounds();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    if (round > 0) board.prepare_next_round();
    route_on_cluster(rows, board, round);
    if (rounds > 1) board.add_up(round == 0);
  }
  if (rounds > 1) __syncthreads();
}

// The bits of a round that was routed before.
__device__ __forceinline__ void mark_again(const RouteArguments& rows, ClusterBoard& board, int round) {
  const ChunkedTokens own = board.own(round);
  const int begin = round * kRoundTokens, live = board.live_of(round, rows.live);
  const int lane = int(threadIdx.x) % kWarpSize;
  if (threadIdx.x == 0) board.expect(live);
#pragma unroll 1
  for (int token = own.first + int(threadIdx.x) / kWarpSize; token < own.last; token += kWarps) {
    const bool present = token < rows.live;
    if (present && lane < kTopK) board.keep(token - begin, lane, int(rows.ids[i64(token) * kTopK + lane]));
    board.send(token - begin, present, lane, kWarpSize);
  }
  board.mark(board.rounds() + round, live);
}

__device__ __forceinline__ void place_round(const PlaceArguments& a, const ClusterBoard& board, int round, int live,
                                            bool has_before) {
  const ChunkedTokens own = board.own(round);
  const int begin = round * kRoundTokens;
#pragma unroll 1
  for (int i = threadIdx.x; i < own.slots(); i += kThreads) {
    const int token = own.first - begin + i / kTopK;
    const bool routed = !kCounted || begin + token < live;
    int place = -1, expert = 0;
    if (routed) {
      expert = board.ids[token * kIdsOfRow + i % kTopK];
      int position = count_bits_before(board.bits, token, expert);
      if (has_before) position += board.sums[expert];
      if (position < a.capacity) place = board.layout.offsets[expert] + position;
    }
    store_place(a, own.first * kTopK + i, expert, routed, place);
  }
}

// Segments must be laid out.
__device__ __forceinline__ void place_rounds(const RouteArguments& rows, const PlaceArguments& a, ClusterBoard& board) {
  const int rounds = board.rounds();
  if (rounds == 1) return place_round(a, board, 0, rows.live, false);
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    board.prepare_next_round();
    mark_again(rows, board, round);
    place_round(a, board, round, rows.live, round > 0);
    __syncthreads();
    board.add_up(round == 0);
    __syncthreads();
  }
}
