// The places at which a lane of a widening warp reads its part of a tile of e4m3, and writes it as fp16.
//
// A lane takes 16 elements at a time, 16 bytes in and two units of 16 bytes out. Of every eight lanes, four read one
// row's 64 elements of an even chunk and four the next row's of an odd one (of one chunk: both rows'), so that all
// eight read and write different banks. Where a lane reads and writes changes from load to load by constants alone. Of
// heads that do not fill the chunks of one, two or four, some lanes have nothing.
// Rows that no query sees become zeros here: no other thread writes a tile.
#pragma once

#include "templates/prefill_attention/work.cuh"

constexpr int kLaneChunks = kHeadDim <= 64 ? 1 : kHeadDim <= 128 ? 2 : 4;  // of a row that have lanes
constexpr int kLoadRows = 8 / kLaneChunks;                                 // that a warp reads at once
constexpr int kBatchRows = min_of(16, 4 * kLoadRows);                      // that it reads before it writes
constexpr int kBatchLoads = kBatchRows / kLoadRows;
constexpr int kBatches = kTile / kBatchRows;
static_assert(kTile % kBatchRows == 0 && kBatchRows % 8 == 0, "whole batches, and whole turns of the swizzle");

class RowWidener {
 public:
  __device__ __forceinline__ RowWidener() {
    const int lane = threadIdx.x % kWarpSize, eight = lane / 8, odd = lane / 4 % 2, quarter = lane % 4;
    const int row = 2 * (eight / kLaneChunks) + odd, chunk = kLaneChunks == 1 ? 0 : eight % kLaneChunks ^ odd;
    raw_place_ = row * kHeadDim + chunk * 64 + quarter * 16;
    if (chunk * 64 + quarter * 16 >= kHeadDim) raw_place_ = -1;  // nothing
    place_ = chunk * kTileChunkBytes + row * 128 + ((2 * quarter ^ row) << 4);
  }

  // A batch of rows, by one warp. `offset` is a multiple of 1024: the tile's in `shared`. Unless kAll, rows outside of
  // `kept` become zeros.
  template <bool kAll>
  __device__ __forceinline__ void widen(const u8* raw_tile, u8* shared, int offset, int batch, RowRange kept) const {
    if (kHeadDim % (64 * kLaneChunks) != 0 && raw_place_ < 0) return;
    const int from = raw_place_ + batch * kBatchRows * kHeadDim;
    const int place = offset + place_ + batch * kBatchRows * 128;
    uint4 loaded[kBatchLoads];
#pragma unroll
    for (int i = 0; i < kBatchLoads; ++i) {
      const int raw = from + i * kLoadRows * kHeadDim;
      loaded[i] = *reinterpret_cast<const uint4*>(raw_tile + raw);
      if (!kAll && (raw < kept.begin * kHeadDim || raw >= kept.end * kHeadDim)) loaded[i] = make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < kBatchLoads; ++i) {
      const int first = (place ^ (i * kLoadRows % 8 << 4)) + i * kLoadRows * 128;
      *reinterpret_cast<uint4*>(shared + first) = widen_e4m3x8(make_uint2(loaded[i].x, loaded[i].y));
      *reinterpret_cast<uint4*>(shared + (first ^ 16)) = widen_e4m3x8(make_uint2(loaded[i].z, loaded[i].w));
    }
  }

 private:
  int raw_place_, place_;  // of this lane's part of the first rows, in a tile as it landed and in one as fp16
};
