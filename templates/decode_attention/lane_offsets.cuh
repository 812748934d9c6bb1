// Where lanes read a tile with ldmatrix.
#pragma once

#include "templates/common/types.cuh"

// The lane's part of the addresses that ldmatrix takes, for the four 32-byte steps of a 128-byte row.
struct LaneOffsets {
  u32 row[4];     // Q, and V transposed: matrices go down 8 rows, then right 16 bytes
  u32 column[4];  // K: matrices go right 16 bytes, then down 8 rows

  __device__ __forceinline__ LaneOffsets() {
    const u32 lane = threadIdx.x % kWarpSize, low = lane & 7, middle = lane >> 3 & 1, high = lane >> 4;
#pragma unroll
    for (u32 step = 0; step < 4; ++step) {
      row[step] = (middle * 8 + low) * 128 + ((high ^ low ^ 2 * step) << 4);
      column[step] = (high * 8 + low) * 128 + ((middle ^ low ^ 2 * step) << 4);
    }
  }
};
