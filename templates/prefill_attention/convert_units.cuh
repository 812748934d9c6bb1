// Queries, keys and values as the matrix instructions take them, 8 elements (16 bytes) at a time.
#pragma once

#include "templates/prefill_attention/shape.cuh"

// 8 e4m3 as fp16.
__device__ __forceinline__ uint4 widened_unit(uint2 raw) {
  return make_uint4(widen_e4m3x2(raw.x), widen_e4m3x2(raw.x >> 16), widen_e4m3x2(raw.y),
                    widen_e4m3x2(raw.y >> 16));
}

// Two elements of a query.
__device__ __forceinline__ u32 query_pair(u32 pair) {
  float low, high;
  Element::unpack(pair, low, high);
  return Math::pack(low, high);
}

__device__ __forceinline__ uint4 converted_queries(uint4 unit) {
  return make_uint4(query_pair(unit.x), query_pair(unit.y), query_pair(unit.z), query_pair(unit.w));
}

constexpr int kRowUnits = kHeadDim / 8;  // of 8 elements: 16 bytes of fp16
constexpr int kBatch = 4;                // units that a lane has under way
constexpr int kBatchUnits = kBatch * kWarpSize;
static_assert(kTile * kRowUnits % kBatchUnits == 0, "whole batches");

// Where unit `unit` of a tile, counted along rows, lies in [chunk][row][128 bytes] with the 128-byte swizzle.
__device__ __forceinline__ int tile_place(int unit) {
  const int row = unit / kRowUnits, column = unit % kRowUnits;
  return column / 8 * kTileChunkBytes + row * 128 + ((column % 8 ^ row % 8) << 4);
}

// Batch `batch` of a tile, by one warp.
__device__ __forceinline__ void widen_batch(const u8* raw, u8* tile, int batch) {
  const int first = batch * kBatchUnits + static_cast<int>(threadIdx.x) % kWarpSize;
  uint2 units[kBatch];
#pragma unroll
  for (int i = 0; i < kBatch; ++i) units[i] = reinterpret_cast<const uint2*>(raw)[first + i * kWarpSize];
#pragma unroll
  for (int i = 0; i < kBatch; ++i)
    *reinterpret_cast<uint4*>(tile + tile_place(first + i * kWarpSize)) = widened_unit(units[i]);
}
