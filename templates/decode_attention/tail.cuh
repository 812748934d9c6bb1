// Tokens of a tile that no query sees: P is 0 for them, and 0 times whatever V holds there must be 0.
#pragma once

#include "templates/decode_attention/worker.cuh"

// Zeros the rows [first, end) of V's sub-tile, past the sequence's end or before its window; by the
// worker's threads, once they have landed.
__device__ __forceinline__ void clear_rows(u8* v, int first, int end) {
  constexpr int kUnits = kRowBytes / 16;  // where they lie in shared memory: narrow rows may not fill theirs
  for (int i = threadIdx.x % kWorkerThreads; i < (end - first) * kUnits; i += kWorkerThreads) {
    const int offset = token_offset(first + i / kUnits) + i % kUnits / 8 * kChunkBytes + i % 8 * 16;
    *reinterpret_cast<uint4*>(v + offset) = make_uint4(0, 0, 0, 0);
  }
  sync_worker();
}
