// Counts, offsets and permutations of slots whose experts are given. docs/router.md has the layouts, which are the
// router's.
//
// Macros: those of ../router/segments.cuh and ../router/schedule.cuh; FLIGHT (ids that a thread loads at once while it
// counts slots of other blocks). The schedules:
// - apart: every block counts all slots by itself, and places its own; no block needs another
// - split: a second kernel places, after the last block of the first has added up the counts
#include "templates/common/dependent_launch.cuh"
#include "templates/route_plan/given.cuh"
#include "templates/router/grid.cuh"

constexpr int kFlight = FLIGHT;
static_assert(kSchedule == Schedule::apart || kSchedule == Schedule::split);

// In dynamic shared memory.
struct ApartTally {
  Tally own;
  u32 ahead[kExperts];  // slots of the expert in blocks before
};

__device__ __forceinline__ SlotRange slots_of_block(int each, int slots) {
  const int begin = min_of(int(blockIdx.x) * each, slots);
  return {begin, min_of(begin + each, slots)};
}

// Adds slots before the block's own to `ahead`, and those behind to `counts`.
__device__ __forceinline__ void count_others(ApartTally& tally, const GivenSegments& segments, SlotRange own,
                                             int slots) {
  u32* const behind = reinterpret_cast<u32*>(tally.own.layout.counts);
#pragma unroll 1
  for (int first = threadIdx.x; first < slots; first += kThreads * kFlight) {
    int found[kFlight];
#pragma unroll
    for (int i = 0; i < kFlight; ++i) {
      const int slot = first + i * kThreads;
      const bool is_other = slot < own.begin || (slot >= own.end && slot < slots);
      found[i] = is_other ? segments(slot) : -1;
    }
#pragma unroll
    for (int i = 0; i < kFlight; ++i) {
      const int slot = first + i * kThreads;
      if (found[i] >= 0) atomicAdd(&(slot < own.begin ? tally.ahead : behind)[found[i]], 1u);
    }
  }
}

__device__ __forceinline__ void place_apart(const PlaceArguments& a, const GivenSegments& segments, SlotRange slots) {
  ApartTally& tally = *reinterpret_cast<ApartTally*>(dynamic_shared());
#pragma unroll 1
  for (int e = threadIdx.x; e < kExperts; e += kThreads) tally.ahead[e] = 0;
  tally_block(tally.own, segments, slots);
  if (gridDim.x > 1) {
    count_others(tally, segments, slots, a.tokens * kTopK);
    __syncthreads();
    add_before(tally.own, [&](int expert) { return tally.ahead[expert]; });
  }
  Layout& layout = tally.own.layout;
  lay_out(layout, a.capacity, [&](int expert) { return layout.counts[expert] + int(tally.ahead[expert]); });
  store_layout(a, layout, blockIdx.x, gridDim.x);
  place_slots(a, tally.own, segments, slots);
  pad_last(a, layout);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    route_plan(const Id* ids, const int* expert_map, const int* token_count, int* counts, int* offsets, int* sorted,
               int* inverse, int* grouping, int* block_counts, GridState* state, i64 map_size, int tokens,
               int slots_each, int capacity, int places, u8* dropped) {
  allow_dependent_launch();
  read_early(ids, counts, map_size);
  wait_for_predecessor();
  const PlaceArguments a{counts, offsets, sorted, inverse, grouping, block_counts, tokens, capacity, places, dropped};
  const GivenSegments segments = given_segments(ids, expert_map, int(map_size), token_count, tokens);
  const SlotRange slots = slots_of_block(slots_each, tokens * kTopK);
  pad_first(a);
  if constexpr (kSchedule == Schedule::apart) {
    place_apart(a, segments, slots);
  } else {
    Tally& tally = tally_memory();
    tally_block(tally, segments, slots);
    lay_out_by_last(a, tally, state);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    route_plan_place(const Id* ids, const int* expert_map, const int* token_count, int* counts, int* offsets,
                     int* sorted, int* inverse, int* grouping, int* block_counts, i64 map_size, int tokens,
                     int slots_each, int capacity, int places, u8* dropped) {
  if constexpr (kSchedule != Schedule::split) return;
  allow_dependent_launch();
  wait_for_predecessor();
  const PlaceArguments a{counts, offsets, sorted, inverse, grouping, block_counts, tokens, capacity, places, dropped};
  const GivenSegments segments = given_segments(ids, expert_map, int(map_size), token_count, tokens);
  place_after_count(a, segments, slots_of_block(slots_each, tokens * kTopK));
}
