// Routing of tokens to experts: scores, the best experts of each token with their weights, and, if asked for, how many
// slots each expert got, where its segment begins, and the permutation of slots that brings tokens of one expert
// together. docs/router.md has the layouts.
//
// Macros: those of shape.cuh, row.cuh, select.cuh and route.cuh; SCHEDULE:
// - rows: ids and weights only
// - block: one block does everything
// - split: a second kernel writes the permutation, after the last block of the first has added up the counts
// - barrier: the same in one kernel, whose blocks all run at once and wait for the last
#include "templates/common/dependent_launch.cuh"
#include "templates/router/grid.cuh"

enum class Schedule { rows, block, split, barrier };
constexpr Schedule kSchedule = Schedule::SCHEDULE;

extern "C" __global__ void __launch_bounds__(kThreads)
    router(const Logit* logits, const float* bias, const int* expert_map, const int* token_count, int* ids,
           float* weights, int* counts, int* offsets, int* sorted, int* inverse, int* block_experts,
           int* block_counts, GridState* state, i64 logits_row, int tokens, int tokens_of_block, int capacity,
           int places, float scale) {
  allow_dependent_launch();
  wait_for_predecessor();
  const RouteArguments rows{logits, bias, ids, weights, logits_row, live_tokens(tokens, token_count), scale};
  const int first = min_of(int(blockIdx.x) * tokens_of_block, tokens),
            last = min_of(first + tokens_of_block, tokens);
  route(rows, first, last);
  if constexpr (kSchedule == Schedule::rows) return;

  const PlaceArguments places_of{counts,       offsets,    sorted, inverse,  block_experts,
                                 block_counts, expert_map, tokens, capacity, places};
  const SlotRange slots{first * kTopK, last * kTopK};
  Tally& tally = tally_memory();
  __syncthreads();
  tally_block(tally, ids, expert_map, slots);
  if constexpr (kSchedule == Schedule::block) {
    lay_out(tally, capacity);
    store_layout(places_of, tally);
    place_slots(places_of, tally, ids, slots);
    pad(places_of, tally);
    return;
  }
  u32 generation = 0;
  if constexpr (kSchedule == Schedule::barrier) generation = load_acquire(&state->generation);
  store_block_counts(places_of, tally);
  if (arrives_last(state, tally.chunks[0])) {
    __syncthreads();
    add_up_blocks(places_of, tally);
    lay_out(tally, capacity);
    store_layout(places_of, tally);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      state->arrivals = 0;
      if constexpr (kSchedule == Schedule::barrier) store_release(&state->generation, generation + 1);
    }
  }
  if constexpr (kSchedule == Schedule::barrier) {
    if (threadIdx.x == 0) wait_until_at_least(&state->generation, generation + 1);
    __syncthreads();
    load_layout(places_of, tally);
    add_blocks_before(places_of, tally);
    __syncthreads();
    place_slots(places_of, tally, ids, slots);
    pad(places_of, tally);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    router_place(const int* ids, const int* expert_map, int* counts, int* offsets, int* sorted, int* inverse,
                 int* block_experts, int* block_counts, int tokens, int tokens_of_block, int capacity,
                 int places) {
  allow_dependent_launch();
  wait_for_predecessor();
  const PlaceArguments a{counts,       offsets,    sorted, inverse,  block_experts,
                         block_counts, expert_map, tokens, capacity, places};
  const int first = min_of(int(blockIdx.x) * tokens_of_block, tokens),
            last = min_of(first + tokens_of_block, tokens);
  const SlotRange slots{first * kTopK, last * kTopK};
  Tally& tally = tally_memory();
  tally_block(tally, ids, expert_map, slots);
  load_layout(a, tally);
  add_blocks_before(a, tally);
  __syncthreads();
  place_slots(a, tally, ids, slots);
  pad(a, tally);
}
