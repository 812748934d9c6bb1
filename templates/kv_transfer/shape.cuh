// The places of the values that kv_transfer moves. docs/kv_transfer.md has the tensors.
//
// Macros: OUTER, INNER, WIDTH (values of a row; a page has OUTER * INNER rows), PLANES, SCALES (a plane's; 0: values
// are moved as they are), SCALE_OUTER (1: a scale for each of OUTER; 0: for each of INNER, or for all), Source, Target.
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/types.cuh"

constexpr int kOuter = OUTER, kInner = INNER, kWidth = WIDTH, kPlanes = PLANES, kRows = kOuter * kInner;
constexpr int kScales = SCALES;
constexpr bool kConverts = kScales > 0;

// One end of the transfer: pages of a pool in the order of a list, or as they lie.
template <typename Element>
struct End {
  Element* values;
  const int* list;                // null: page i is the i-th
  i64 page, plane, outer, inner;  // elements from one to the next

  // Its first value; null if the list has none there.
  __device__ __forceinline__ Element* page_at(int of_plane, int i) const {
    const int listed = list == nullptr ? i : list[i];
    return listed < 0 ? nullptr : values + of_plane * plane + listed * page;
  }

  __device__ __forceinline__ i64 row_at(int row) const { return (row / kInner) * outer + (row % kInner) * inner; }

  // Whether a page's rows lie side by side.
  __device__ __forceinline__ bool is_dense() const {
    return (kOuter == 1 || outer == i64(kInner) * kWidth) && (kInner == 1 || inner == kWidth);
  }
};

__device__ __forceinline__ int scale_at(int plane, int row) {
  return plane * kScales + (kScales == 1 ? 0 : SCALE_OUTER ? row / kInner : row % kInner);
}

#define TRANSFER_PARAMETERS(Written)                                                                            \
  const Source *source, const int *source_pages, const int *target_pages, const float *scales, Written *target, \
      i64 source_page, i64 source_plane, i64 source_outer, i64 source_inner, i64 target_page, i64 target_plane, \
      i64 target_outer, i64 target_inner, i32 pages

#define TRANSFER_ENDS(Written)                                                                               \
  const End<const Source> from{source, source_pages, source_page, source_plane, source_outer, source_inner}; \
  const End<Written> to { target, target_pages, target_page, target_plane, target_outer, target_inner }
