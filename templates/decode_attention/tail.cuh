// The end of a sequence within a tile: P is 0 for the tokens past it, and 0 times whatever V holds there must be 0.
#pragma once

#include "templates/decode_attention/shape.cuh"

// Zeros the rows of V's sub-tile from `valid` on; by one warp, once they have landed. Only the last tile of a block
// has such rows, so nothing is copied over them later.
__device__ __forceinline__ void clear_tail(u8* v, int valid) {
  constexpr int kUnits = kHeadDim / 8;
  for (int i = threadIdx.x % kWarpSize; i < (kWarpTokens - valid) * kUnits; i += kWarpSize) {
    const int offset = token_offset(valid + i / kUnits) + i % kUnits / 8 * kChunkBytes + i % 8 * 16;
    *reinterpret_cast<uint4*>(v + offset) = make_uint4(0, 0, 0, 0);
  }
  __syncwarp();
}
