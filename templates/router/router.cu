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
// - barrier: all blocks run at once, wait for each other, and read each other's counts
#include "templates/common/dependent_launch.cuh"
#include "templates/router/ranks.cuh"

enum class Schedule { rows, block, split, cluster, barrier };
constexpr Schedule kSchedule = Schedule::SCHEDULE;

// 1024 threads of an SM hold what they need in registers: blocks that wait for each other must all run at once, and
// elections among few candidates are fastest when as many run beside each other.
constexpr bool kElectsAmongFew = kElects && kCandidatesOfLane <= 4 && kRows * kHeld <= 8;
constexpr int kBlocksOfSm = kSchedule == Schedule::barrier || kElectsAmongFew ? 1024 / kThreads : 1;

__device__ __forceinline__ void lay_out_segments(const PlaceArguments& a, Layout& layout) {
  lay_out(layout, a.capacity);
  if (blockIdx.x == 0) store_layout(a, layout);
}

// By the bits of a board.
__device__ __forceinline__ void route_and_place(const RouteArguments& rows, const PlaceArguments& a,
                                                GridState* state, ChunkedTokens tokens) {
  Board& board = board_memory();
  clear_chunk(board, tokens, 0);
  route(rows, tokens.first, tokens.last, [&](int token, int slot, int expert) {
    if (token - tokens.first < kChunkTokens) mark(board, token - tokens.first, slot, expert);
  });
  __syncthreads();
  count_own(board, rows.ids, tokens);
  if constexpr (kSchedule == Schedule::cluster) {
    exchange_in_cluster(board);
    cluster_arrive();
  } else {
    exchange_in_grid(board, reinterpret_cast<u32*>(a.block_counts), state);
  }
  lay_out_segments(a, board.layout);
  place_tokens(a, board, rows.ids, tokens);
  pad(a, board.layout);
  if constexpr (kSchedule == Schedule::cluster) cluster_wait();
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
  if (threadIdx.x == 0) state->arrivals = 0;
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksOfSm)
    router(const Logit* logits, const float* bias, const int* expert_map, const int* token_count, Id* ids,
           float* weights, int* counts, int* offsets, int* sorted, int* inverse, int* grouping,
           int* block_counts, GridState* state, i64 logits_row, int tokens, int tokens_of_block, int capacity,
           int places, float scale, u8* dropped, int* tokens_per_rank, u8* in_rank) {
  if constexpr (kDependents == Dependents::early) allow_dependent_launch();
  read_early(logits, bias, ids, weights, logits_row, i64(tokens));
  wait_for_predecessor();
  const RouteArguments rows{logits, bias, ids, weights, logits_row, live_tokens(tokens, token_count), scale};
  const int first = min_of(int(blockIdx.x) * tokens_of_block, tokens),
            last = min_of(first + tokens_of_block, tokens);
  const PlaceArguments a{counts,     offsets, sorted,   inverse, grouping, block_counts,
                         expert_map, tokens,  capacity, places,  dropped};
  if constexpr (kRanks > 0) {
    route_and_count(rows, {counts, tokens_per_rank, in_rank, block_counts}, state, first, last);
  } else if constexpr (kSchedule == Schedule::cluster || kSchedule == Schedule::barrier) {
    route_and_place(rows, a, state, {first, last});
  } else {
    route(rows, first, last, [](int, int, int) {});
    if constexpr (kSchedule != Schedule::rows) tally_and_place(a, state, ids, {first * kTopK, last * kTopK});
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
  const int first = min_of(int(blockIdx.x) * tokens_of_block, tokens),
            last = min_of(first + tokens_of_block, tokens);
  const SlotRange slots{first * kTopK, last * kTopK};
  Tally& tally = tally_memory();
  tally_block(tally, ids, expert_map, slots);
  load_layout(a, tally.layout);
  add_blocks_before(a, tally);
  __syncthreads();
  place_slots(a, tally, ids, slots);
  pad(a, tally.layout);
}
