// The threads of a worker: one warp, or the four of a warpgroup.
#pragma once

#include "templates/common/barrier.cuh"
#include "templates/common/tma.cuh"
#include "templates/decode_attention/shape.cuh"

constexpr int kFirstWorkerBarrier = 8;  // named barriers below it belong to the whole block

__device__ __forceinline__ int worker_barrier() {
  return kFirstWorkerBarrier + (kWorkers == 1 ? 0 : static_cast<int>(threadIdx.x) / kWorkerThreads);
}

// What the worker's threads stored to shared memory before is seen by all of them, and by their wgmma, after.
__device__ __forceinline__ void sync_worker() {
  if constexpr (kWorkerWarps == 1) {
    __syncwarp();
  } else {
    fence_async_proxy();
    named_barrier_sync(worker_barrier(), kWorkerThreads);
  }
}

// The same, and whether `value` holds for any of them.
__device__ __forceinline__ bool any_in_worker(bool value) {
  if constexpr (kWorkerWarps == 1) {
    return __any_sync(kWholeWarp, value);
  } else {
    fence_async_proxy();
    return named_barrier_any(worker_barrier(), kWorkerThreads, value);
  }
}
