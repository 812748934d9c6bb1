// The segments of slots whose experts somebody else chose. Any integer may stand for an expert: what names none of this
// GPU's goes nowhere.
//
// Macros: those of ../router/segments.cuh.
#pragma once

#include "templates/router/segments.cuh"

struct GivenSegments {
  const Id* ids;          // [tokens * kTopK]
  const int* expert_map;  // [map_size]: a segment, or -1 for an expert elsewhere
  int map_size;
  int live;  // slots of the tokens that are placed

  // Returns the slot's segment, or -1 for none. An id may have 64 bits, so it is compared before it is narrowed.
  __device__ __forceinline__ int operator()(int slot) const {
    if (kCounted && slot >= live) return -1;
    const Id id = ids[slot];
    if constexpr (!kMapped) return id >= 0 && id < kExperts ? int(id) : -1;
    const int segment = id >= 0 && id < map_size ? expert_map[id] : -1;
    return segment >= 0 && segment < kExperts ? segment : -1;
  }
};

__device__ __forceinline__ GivenSegments given_segments(const Id* ids, const int* expert_map, int map_size,
                                                        const int* token_count, int tokens) {
  return {ids, expert_map, map_size, live_tokens(tokens, token_count) * kTopK};
}
