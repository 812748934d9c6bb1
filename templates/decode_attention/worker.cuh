// The threads of a worker: one warp, or the four of a warpgroup.
#pragma once

#include "templates/common/barrier.cuh"
#include "templates/common/tma.cuh"
#include "templates/decode_attention/shape.cuh"

constexpr int kFirstWorkerBarrier = 8;  // named barriers below it belong to the whole block

__device__ __forceinline__ int worker_barrier() {
  return kFirstWorkerBarrier + (kWorkers == 1 ? 0 : static_cast<int>(threadIdx.x) / kWorkerThreads);
}

// Makes earlier stores of the worker's threads to shared memory visible to all of them, and to their wgmma.
__device__ __forceinline__ void sync_worker() {
  if constexpr (kWorkerWarps == 1) {
    __syncwarp();
  } else {
    fence_async_proxy();
    named_barrier_sync(worker_barrier(), kWorkerThreads);
  }
}

// The same for a warpgroup, and whether `value` holds for any of its threads.
__device__ __forceinline__ bool any_in_worker(bool value) {
  fence_async_proxy();
  return named_barrier_any(worker_barrier(), kWorkerThreads, value);
}

// Zeros the rows [first, end) of V's sub-tile, which no query sees: P is 0 for them, and 0 times whatever V holds there
// must be 0. Called by the worker's threads, once the rows have landed.
__device__ __forceinline__ void clear_rows(u8* v, int first, int end) {
  constexpr int kUnits = kRowBytes / 16;  // where they lie in shared memory: narrow rows may not fill theirs
  for (int i = threadIdx.x % kWorkerThreads; i < (end - first) * kUnits; i += kWorkerThreads) {
    const int offset = token_offset(first + i / kUnits) + i % kUnits / 8 * kChunkBytes + i % 8 * 16;
    *reinterpret_cast<uint4*>(v + offset) = make_uint4(0, 0, 0, 0);
  }
  sync_worker();
}
