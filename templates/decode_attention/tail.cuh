// Tokens of a tile that no query sees: P is 0 for them, and 0 times whatever V holds there must be 0.
#pragma once

#include "templates/decode_attention/shape.cuh"

// Zeros the rows [first, end) of V's sub-tile, past the sequence's end or before its window; by one warp,
// once they have landed.
__device__ __forceinline__ void clear_rows(u8* v, int first, int end) {
  for (int i = threadIdx.x % kWarpSize; i < (end - first) * kUnitsPerRow; i += kWarpSize) {
    const int offset =
        token_offset(first + i / kUnitsPerRow) + i % kUnitsPerRow / 8 * kChunkBytes + i % 8 * 16;
    *reinterpret_cast<uint4*>(v + offset) = make_uint4(0, 0, 0, 0);
  }
  __syncwarp();
}
