// The segments of places that experts' slots go to: how many there are, and how they lie.
//
// Macros: EXPERTS (segments), TOP_K (slots of a token), MAPPED (1: an expert map), COUNTED (1: the number of tokens is
// on the device), ALIGN (segments of experts begin at multiples of it), SEGMENT (places of every expert's segment; 0:
// as many as it needs), LAYOUT (a Grouping), IDS (int or i64), DROPPED (1: a mask of the slots that an expert had no
// room for).
#pragma once

#include "templates/common/types.cuh"

constexpr int kExperts = EXPERTS, kTopK = TOP_K;
static_assert(kExperts <= 1024 && kTopK <= 32, "a warp has a lane for each slot, and for each 32 experts");
constexpr bool kMapped = MAPPED, kCounted = COUNTED;
constexpr int kAlign = ALIGN, kSegment = SEGMENT;
constexpr bool kDropped = DROPPED;
using Id = IDS;

// How a grouped GEMM learns whose places are whose:
// - blocks: the expert of each block of kAlign places
// - rows: the expert of each place
// - ends: where each expert's segment ends
// - masked: nothing, all segments have kSegment places
enum class Grouping { blocks, rows, ends, masked };
constexpr Grouping kGrouping = Grouping::LAYOUT;
static_assert((kGrouping == Grouping::masked) == (kSegment > 0));

// Tokens that are routed. The others get no place.
__device__ __forceinline__ int live_tokens(int tokens, const int* token_count) {
  return kCounted ? min_of(tokens, max_of(0, *token_count)) : tokens;
}

// The segment of an expert's slots: its own one, that of its local id, or -1 for nowhere.
__device__ __forceinline__ int segment_of(int expert, const int* expert_map) {
  if constexpr (!kMapped) return expert;
  const int local = expert >= 0 ? expert_map[expert] : -1;
  return local < kExperts ? local : -1;
}

// The segments of slots that the router gave experts, or -1.
struct RoutedSegments {
  const Id* ids;
  const int* expert_map;

  __device__ __forceinline__ int operator()(int slot) const { return segment_of(int(ids[slot]), expert_map); }
};

// The places of an expert's segment: whole blocks of kAlign, unless all segments are equal.
__device__ __forceinline__ int padded(int count) {
  return kSegment > 0 ? kSegment : (count + kAlign - 1) / kAlign * kAlign;
}
