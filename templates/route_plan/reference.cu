// The plain version of route_plan: a thread an expert.
//
// Macros: those of ../router/segments.cuh.
#include "templates/route_plan/given.cuh"
#include "templates/router/reference_places.cuh"

extern "C" __global__ void route_plan_reference_counts(const Id* ids, const int* expert_map, const int* token_count,
                                                       int* counts, i64 map_size, int tokens, int capacity) {
  const ReferencePlaces a{counts, nullptr, nullptr, nullptr, nullptr, nullptr, tokens * kTopK, capacity, 0};
  const int expert = blockIdx.x * blockDim.x + threadIdx.x;
  if (expert < kExperts) a.count(given_segments(ids, expert_map, int(map_size), token_count, tokens), expert);
}

// One block.
extern "C" __global__ void route_plan_reference_offsets(int* counts, int* offsets, int* sorted, int* grouping,
                                                        int tokens, int places) {
  const ReferencePlaces a{counts, offsets, sorted, nullptr, grouping, nullptr, tokens * kTopK, 0, places};
  a.lay_out();
}

extern "C" __global__ void route_plan_reference_places(const Id* ids, const int* expert_map, const int* token_count,
                                                       int* offsets, int* sorted, int* inverse, int* grouping,
                                                       u8* dropped, i64 map_size, int tokens, int capacity) {
  const ReferencePlaces a{nullptr, offsets, sorted, inverse, grouping, dropped, tokens * kTopK, capacity, 0};
  const int expert = blockIdx.x * blockDim.x + threadIdx.x;
  if (expert < kExperts) a.place(given_segments(ids, expert_map, int(map_size), token_count, tokens), expert);
}
