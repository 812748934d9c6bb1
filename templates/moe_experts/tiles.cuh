// The list of tiles: every block makes it from the offsets of this launch, so that a captured graph replays
// any routing within the host's bounds.
//
// Tiles of an expert follow each other, its rows fastest: blocks that run together share weights in L2.
#pragma once

#include "templates/common/prefix_sum.cuh"
#include "templates/moe_experts/product.cuh"

struct Tile {
  int row;  // among the rows of tiles of all experts
  int expert;
  int place;     // the first
  int rows;      // that there are of it
  int column;    // the first
  bool is_only;  // no other tile of rows reads these weights
};

// Offsets may be anything: nothing outside of [0, places) is named, and no row of tiles past the host's bound.
class TileList {
 public:
  static constexpr int kBytes = 4 * (2 * (kExperts + 1) + 32);

  __device__ __forceinline__ explicit TileList(u8* memory) : starts_(reinterpret_cast<int*>(memory)) {}

  // All threads of the block call it; ends with a barrier.
  template <int kThreads>
  __device__ __forceinline__ void make(const int* offsets, int places, int row_tiles) const {
    constexpr int kOwn = ceil_div(kExperts, kThreads);
    static_assert(kThreads <= 1024 && kThreads % kWarpSize == 0, "a sum for every warp");
    const int first = static_cast<int>(threadIdx.x) * kOwn;
    const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
    int bounds[kOwn + 1], mine = 0;
#pragma unroll
    for (int i = 0; i <= kOwn; ++i) bounds[i] = min_of(max_of(offsets[min_of(first + i, kExperts)], 0), places);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) mine += tiles_between(bounds[i], bounds[i + 1]);
    const int sum = warp_prefix_sum(mine, lane);
    if (lane == kWarpSize - 1) warp_sums()[warp] = sum;
    __syncthreads();
    int start = sum - mine;
    for (int before = 0; before < warp; ++before) start += warp_sums()[before];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      if (first + i >= kExperts) break;
      starts_[first + i] = min_of(start, row_tiles);
      bounds_of()[first + i] = bounds[i];
      start += tiles_between(bounds[i], bounds[i + 1]);
      if (first + i != kExperts - 1) continue;
      starts_[kExperts] = min_of(start, row_tiles);
      bounds_of()[kExperts] = bounds[i + 1];
    }
    __syncthreads();
  }

  template <typename Product>
  __device__ __forceinline__ int count() const {
    return starts_[kExperts] * Stages<Product>::kColumnTiles;
  }

  // For a whole warp. False behind the last tile.
  template <typename Product>
  __device__ __forceinline__ bool find(int index, Tile& tile) const {
    constexpr int kColumnTiles = Stages<Product>::kColumnTiles;
    const int row = index / kColumnTiles;
    if (row >= starts_[kExperts]) return false;
    tile.expert = last_at_most(row);
    const int start = starts_[tile.expert], count = starts_[tile.expert + 1] - start;
    const int within = index - start * kColumnTiles;
    const int* const bounds = bounds_of() + tile.expert;
    tile.column = within / count * Product::kColumns;
    tile.row = start + within % count;
    tile.place = bounds[0] + within % count * kRows;
    tile.rows = min_of(kRows, bounds[1] - tile.place);
    tile.is_only = count == 1;
    return true;
  }

 private:
  static __device__ __forceinline__ int tiles_between(int begin, int end) {
    return ceil_div(max_of(end - begin, 0), kRows);
  }

  // The last expert whose first tile is `row` or comes before it.
  __device__ __forceinline__ int last_at_most(int row) const {
    constexpr int kStep = ceil_div(kExperts, kWarpSize);
    static_assert(kStep <= kWarpSize, "two looks");
    const int lane = threadIdx.x % kWarpSize;
    const int far = lane * kStep;
    const int first =
        (__popc(__ballot_sync(kWholeWarp, far < kExperts && starts_[min_of(far, kExperts)] <= row)) - 1) * kStep;
    const int near = first + lane;
    const bool is_before = lane < kStep && near < kExperts && starts_[min_of(near, kExperts)] <= row;
    return first + __popc(__ballot_sync(kWholeWarp, is_before)) - 1;
  }

  __device__ __forceinline__ int* bounds_of() const { return starts_ + kExperts + 1; }
  __device__ __forceinline__ int* warp_sums() const { return starts_ + 2 * (kExperts + 1); }

  int* starts_;  // row tiles of the experts before each; behind them where segments begin, and sums of warps
};
static_assert(Stages<Up>::kTilesOffset + TileList::kBytes == SHARED_UP &&
                  Stages<Down>::kTilesOffset + TileList::kBytes == SHARED_DOWN,
              "the plan lays out shared memory as above");
