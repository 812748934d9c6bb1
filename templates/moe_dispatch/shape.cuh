// What moe_dispatch and its reference agree on: the family's shape, and where scales lie.
//
// Macros: HIDDEN, TOP_K, SCALE (a Scale), BY_COLUMNS (1: the scales of neighbouring places lie side by side),
// ZERO_PADDING (1: places without a token get zeros, and scales of 1; 0: they stay as they are).
#pragma once

#include "templates/common/quantize.cuh"
#include "templates/common/types.cuh"

enum class Scale { none, group, token };  // none: rows are bf16

constexpr int kHidden = HIDDEN, kTopK = TOP_K;
constexpr Scale kScale = Scale::SCALE;
constexpr bool kNarrow = kScale != Scale::none, kByColumns = BY_COLUMNS, kZeroPadding = ZERO_PADDING;
constexpr int kGroup = kScale == Scale::token ? kHidden : 128;  // values that share a scale; the last may be fewer
constexpr int kGroups = ceil_div(kHidden, kGroup);
constexpr int kRowBytes = kHidden * (kNarrow ? 1 : 2);  // of what is written

// A column of scales is padded to 16 bytes.
__device__ __forceinline__ i64 padded_places(int places) { return (i64(places) + 3) / 4 * 4; }

__device__ __forceinline__ i64 scale_index(i64 place, int group, int places) {
  return kByColumns ? group * padded_places(places) + place : place * kGroups + group;
}
