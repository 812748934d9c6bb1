// Named barriers over a subset of a block's warps. Barrier 0 is __syncthreads.
#pragma once

#include "templates/common/types.cuh"

// Waits until `threads` threads (a multiple of 32) have arrived.
__device__ __forceinline__ void named_barrier_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Counts as arrived and goes on.
__device__ __forceinline__ void named_barrier_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
