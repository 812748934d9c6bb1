// Routing of tokens to experts: scores, the best experts of each token with their weights, and, if asked for, how many
// slots each expert got, where its segment begins, and the permutation of slots that brings tokens of one expert
// together. docs/router.md has the layouts.
//
// Macros: those of shape.cuh, row.cuh, select.cuh and route.cuh; SCHEDULE:
// - rows: ids and weights only
// - block: one block does everything
// - split: a second kernel writes the permutation, after the last block of the first has added up the counts; where
//   counts are all that is wanted there is no second kernel
// - cluster: the blocks of one cluster read each other's counts
// - barrier: all blocks wait for each other, and read each other's counts
#include "templates/common/dependent_launch.cuh"
#include "templates/router/exchange.cuh"
#include "templates/router/ranks.cuh"

enum class Schedule { rows, block, split, cluster, barrier };
constexpr Schedule kSchedule = Schedule::SCHEDULE;

// 1024 threads of an SM hold what they need in registers: blocks that wait for each other should all run at once, and
// elections among few candidates are fastest when as many run beside each other.
constexpr bool kElectsAmongFew = kElects && kCandidatesOfLane <= 4 && kRows * kHeld <= 8;
constexpr int kBlocksOfSm = kSchedule == Schedule::barrier || kElectsAmongFew ? 1024 / kThreads : 1;

__device__ __forceinline__ void lay_out_segments(const PlaceArguments& a, Layout& layout) {
  lay_out(layout, a.capacity);
  if (blockIdx.x == 0) store_layout(a, layout);
}

// Marks the tokens on a cleared board, and counts them.
__device__ __forceinline__ void mark_tokens(const RouteArguments& rows, Board& board, ChunkedTokens tokens) {
  route(rows, tokens.first, tokens.last, [&](int token, int slot, int expert) {
    if (token - tokens.first < kChunkTokens) mark(board, token - tokens.first, slot, expert);
  });
  __syncthreads();
  count_own(board, rows.ids, tokens);
}

// Returns once the counts of all blocks are in memory. What a block's tokens become is the same whoever routes them, so
// that a block which waits in vain for one that does not run may do its work: no block needs another to run at the
// same time. Returns what reset_if_last takes, in the first thread.
__device__ __forceinline__ u32 route_grid(const RouteArguments& rows, Board& board, const GridCounts& counts,
                                          GridState* state, int tokens) {
  bool was_set = false, others = false;
  int block = int(blockIdx.x);
#pragma unroll 1
  do {
    const ChunkedTokens its = ChunkedTokens::of_block(block, counts.block_size, tokens);
    if (block != int(blockIdx.x)) clear_chunk(board, its, 0);
    mark_tokens(rows, board, its);
    counts.store(board, block);
    __syncthreads();
    if (threadIdx.x == 0) was_set |= set_routed(state, block);
    if (threadIdx.x < kWarpSize) board.unrouted = unrouted_block(state);
    __syncthreads();
    block = board.unrouted;
    others |= block >= 0;
  } while (block >= 0);
  const u32 left_before = threadIdx.x == 0 ? leave_grid(state, was_set) : gridDim.x;
  if (others) fill_chunk(board, rows.ids, ChunkedTokens::of_block(blockIdx.x, counts.block_size, tokens), 0);
  return left_before;
}

// By the bits of a board, which is cleared.
__device__ __forceinline__ void route_and_place(const RouteArguments& rows, const PlaceArguments& a,
                                                GridState* state, int block_size, ChunkedTokens tokens) {
  Board& board = board_memory();
  u32 left_before = 0;
  if constexpr (kSchedule == Schedule::cluster) {
    mark_tokens(rows, board, tokens);
    exchange_in_cluster(board);
    cluster_arrive();
  } else {
    const GridCounts counts{reinterpret_cast<u32*>(a.block_counts), block_size};
    left_before = route_grid(rows, board, counts, state, a.tokens);
    add_up_grid(board, counts);
  }
  lay_out_segments(a, board.layout);
  place_tokens(a, board, rows.ids, tokens);
  pad(a, board.layout);
  if constexpr (kSchedule == Schedule::cluster) cluster_wait();
  if constexpr (kSchedule == Schedule::barrier) {
    if (threadIdx.x == 0) reset_if_last(state, left_before);
  }
}

// Slots in their order, by warps.
__device__ __forceinline__ void tally_and_place(const PlaceArguments& a, GridState* state, const Id* ids,
                                                SlotRange slots) {
  Tally& tally = tally_memory();
  __syncthreads();
  tally_block(tally, ids, a.expert_map, slots);
  if constexpr (kSchedule == Schedule::block) {
    lay_out_segments(a, tally.layout);
    place_slots(a, tally, ids, slots);
    pad(a, tally.layout);
    return;
  }
  store_block_counts(a, tally);
  if (!arrives_last(state, tally.layout.chunks[0])) return;
  __syncthreads();
  add_up_blocks(a, tally);
  lay_out(tally.layout, a.capacity);
  store_layout(a, tally.layout);
  if (threadIdx.x == 0) state->leavers = 0;
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksOfSm)
    router(const Logit* logits, const float* bias, const int* expert_map, const int* token_count, Id* ids,
           float* weights, int* counts, int* offsets, int* sorted, int* inverse, int* grouping,
           int* block_counts, GridState* state, i64 logits_row, int tokens, int tokens_of_block, int capacity,
           int places, float scale, u8* dropped, int* tokens_per_rank, u8* in_rank) {
  if constexpr (kDependents == Dependents::early) allow_dependent_launch();
  read_early(logits, bias, ids, weights, logits_row, i64(tokens));
  constexpr bool kHasBoard = kSchedule == Schedule::cluster || kSchedule == Schedule::barrier;
  const ChunkedTokens own = ChunkedTokens::of_block(blockIdx.x, tokens_of_block, tokens);
  if constexpr (kHasBoard) prepare_board(board_memory(), own);
  wait_for_predecessor();
  const RouteArguments rows{logits, bias, ids, weights, logits_row, live_tokens(tokens, token_count), scale};
  const PlaceArguments a{counts,     offsets, sorted,   inverse, grouping, block_counts,
                         expert_map, tokens,  capacity, places,  dropped};
  if constexpr (kRanks > 0) {
    route_and_count(rows, {counts, tokens_per_rank, in_rank, block_counts}, state, own.first, own.last);
  } else if constexpr (kHasBoard) {
    route_and_place(rows, a, state, tokens_of_block, own);
  } else {
    route(rows, own.first, own.last, [](int, int, int) {});
    if constexpr (kSchedule != Schedule::rows)
      tally_and_place(a, state, ids, {own.first * kTopK, own.last * kTopK});
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    router_place(const Id* ids, const int* expert_map, int* counts, int* offsets, int* sorted, int* inverse,
                 int* grouping, int* block_counts, int tokens, int tokens_of_block, int capacity, int places,
                 u8* dropped) {
  if constexpr (kSchedule != Schedule::split || !kPlan) return;
  allow_dependent_launch();
  wait_for_predecessor();
  const PlaceArguments a{counts,     offsets, sorted,   inverse, grouping, block_counts,
                         expert_map, tokens,  capacity, places,  dropped};
  const ChunkedTokens own = ChunkedTokens::of_block(blockIdx.x, tokens_of_block, tokens);
  const SlotRange slots{own.first * kTopK, own.last * kTopK};
  Tally& tally = tally_memory();
  tally_block(tally, ids, expert_map, slots);
  load_layout(a, tally.layout);
  add_blocks_before(a, tally);
  __syncthreads();
  place_slots(a, tally, ids, slots);
  pad(a, tally.layout);
}
