// Routing of tokens to experts: scores, the best experts of each token with their weights, and, if asked for, how many
// slots each expert got, where its segment begins, and the permutation of slots that brings tokens of one expert
// together. docs/router.md has the layouts.
//
// Macros: those of shape.cuh, row.cuh, select.cuh, route.cuh and schedule.cuh. The schedules:
// - rows: ids and weights only
// - block: one block does everything
// - split: a second kernel writes the permutation, after the last block of the first has added up the counts; if
//   only counts are wanted there is no second kernel
// - cluster: each block of one cluster sees where all tokens go
// - barrier: all blocks wait for each other, and read each other's counts
#include "templates/common/dependent_launch.cuh"
#include "templates/common/settle.cuh"
#include "templates/router/cluster_board.cuh"
#include "templates/router/exchange.cuh"
#include "templates/router/ranks.cuh"

// 1024 threads of an SM hold what they need in registers: blocks that wait for each other should all run at once, and
// elections among few candidates are fastest when as many run beside each other.
constexpr bool kElectsAmongFew = kElects && kCandidatesOfLane <= 4 && kRows * kHeld <= 8;
constexpr int kBlocksOfSm = kSchedule == Schedule::barrier || kElectsAmongFew ? 1024 / kThreads : 1;

// Routes a block's tokens on a prepared board, and leaves their counts in global memory. Returns what GridCounts::store
// does.
__device__ __forceinline__ u32 route_block(const RouteArguments& rows, Board& board, const GridCounts& counts,
                                           int block, ChunkedTokens tokens) {
  route(rows, tokens.first, tokens.last, [&](int token, int slot, int expert) {
    if (token - tokens.first < kChunkTokens) mark(board, token - tokens.first, slot, expert);
  });
  __syncthreads();
  if (tokens.count() == 1) {
    const int words = tokens.words(0);
    return counts.store(block, [&](int expert) { return count_bits(board.bits, words, expert); });
  }
  count_own(board, rows.ids, tokens);
  return counts.store(block, [&](int expert) { return board.own[expert]; });
}

// Returns once the counts of all blocks are added up. What a block's tokens become is the same whoever routes them, so
// that a block which waits in vain for one that does not run may do its work: no block needs another to run at the
// same time. Returns how many blocks had left before, in the first thread.
__device__ __forceinline__ u32 route_grid(const RouteArguments& rows, Board& board, const GridCounts& counts,
                                          GridState* state, int tokens) {
  const auto tokens_of = [&](int block) { return ChunkedTokens::of_block(block, counts.block_size, tokens); };
  int block = int(blockIdx.x);
  bool others = false;
#pragma unroll 1
  do {
    if (others) prepare_board(board, tokens_of(block));
    const u32 stored = route_block(rows, board, counts, block, tokens_of(block));
    if (others) {  // sums begin anew, from what own tokens left on the board
      __syncthreads();
      fill_chunk(board, rows.ids, tokens_of(blockIdx.x), 0);
    }
    block = add_up_grid(board, counts);
    others = true;
    settle(stored);  // no word of this block's comes after it has left
    __syncthreads();
  } while (block >= 0);
  return threadIdx.x == 0 ? atomicAdd(&state->blocks_done, 1u) : 0;
}

// The board must be prepared.
__device__ __forceinline__ void place_by_grid(const RouteArguments& rows, const PlaceArguments& a, GridState* state,
                                              int block_size, ChunkedTokens tokens) {
  Board& board = board_memory();
  const GridCounts counts{reinterpret_cast<u32*>(a.block_counts), block_size};
  const u32 left_before = route_grid(rows, board, counts, state, a.tokens);
  lay_out(board.layout, a.capacity);
  store_layout(a, board.layout, blockIdx.x, gridDim.x);
  place_tokens(a, board, rows.ids, tokens);
  pad_last(a, board.layout, busy_threads(block_size * kTopK));
  if (!__syncthreads_or(threadIdx.x == 0 && left_before == gridDim.x - 1)) return;
  counts.clear();
  if (threadIdx.x == 0) state->blocks_done = 0;
}

// The board must be prepared in every block.
__device__ __forceinline__ void place_by_cluster(const RouteArguments& rows, const PlaceArguments& a, int block_size) {
  ClusterBoard board(block_size, a.tokens);
  route_rounds(rows, board);
  lay_out(board.layout, a.capacity,
          [&](int expert) { return board.rounds() > 1 ? board.sums[expert] : board.count(expert); });
  store_layout(a, board.layout, blockIdx.x, gridDim.x);
  place_rounds(rows, a, board);
  pad_last(a, board.layout, busy_threads(block_size * kTopK));
}

// Slots in their order, by warps.
__device__ __forceinline__ void tally_and_place(const PlaceArguments& a, GridState* state,
                                                const RoutedSegments& segments, SlotRange slots) {
  Tally& tally = tally_memory();
  tally_block(tally, segments, slots);
  if constexpr (kSchedule != Schedule::block) return lay_out_by_last(a, tally, state);
  lay_out(tally.layout, a.capacity);
  store_layout(a, tally.layout, 0, 1);
  place_slots(a, tally, segments, slots);
  pad_last(a, tally.layout);
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksOfSm)
    router(const Logit* logits, const float* bias, const int* expert_map, const int* token_count, Id* ids,
           float* weights, int* counts, int* offsets, int* sorted, int* inverse, int* grouping, int* block_counts,
           GridState* state, i64 logits_row, int tokens, int tokens_of_block, int capacity, int places, float scale,
           u8* dropped, int* tokens_per_rank, u8* in_rank) {
  if constexpr (kDependents == Dependents::early) allow_dependent_launch();
  settle_parameters(tokens, cluster_size(), logits, counts);
  const ChunkedTokens own = ChunkedTokens::of_block(blockIdx.x, tokens_of_block, tokens);
  if constexpr (kSchedule == Schedule::barrier) prepare_board(board_memory(), own);
  if constexpr (kSchedule == Schedule::cluster) ClusterBoard(tokens_of_block, tokens).prepare();
  wait_for_predecessor();
  const RouteArguments rows{logits, bias, ids, weights, logits_row, live_tokens(tokens, token_count), scale};
  const PlaceArguments a{counts, offsets, sorted, inverse, grouping, block_counts, tokens, capacity, places, dropped};
  if constexpr (kPlan) pad_first(a);
  if constexpr (kRanks > 0) {
    route_and_count(rows, {counts, tokens_per_rank, in_rank, block_counts}, state, own.first, own.last);
  } else if constexpr (kSchedule == Schedule::cluster) {
    place_by_cluster(rows, a, tokens_of_block);
  } else if constexpr (kSchedule == Schedule::barrier) {
    place_by_grid(rows, a, state, tokens_of_block, own);
  } else {
    route(rows, own.first, own.last, [](int, int, int) {});
    if constexpr (kSchedule != Schedule::rows)
      tally_and_place(a, state, {ids, expert_map}, {own.first * kTopK, own.last * kTopK});
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    router_place(const Id* ids, const int* expert_map, int* counts, int* offsets, int* sorted, int* inverse,
                 int* grouping, int* block_counts, int tokens, int tokens_of_block, int capacity, int places,
                 u8* dropped) {
  if constexpr (kSchedule != Schedule::split || !kPlan) return;
  allow_dependent_launch();
  wait_for_predecessor();
  const PlaceArguments a{counts, offsets, sorted, inverse, grouping, block_counts, tokens, capacity, places, dropped};
  const ChunkedTokens own = ChunkedTokens::of_block(blockIdx.x, tokens_of_block, tokens);
  place_after_count(a, RoutedSegments{ids, expert_map}, {own.first * kTopK, own.last * kTopK});
}
