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

// Waits like named_barrier_sync; true for all where `value` is for any.
__device__ __forceinline__ bool named_barrier_any(int barrier, int threads, bool value) {
  int any;
  asm volatile(
      "{\n"
      ".reg .pred mine, all;\n"
      "setp.ne.b32 mine, %3, 0;\n"
      "bar.red.or.pred all, %1, %2, mine;\n"
      "selp.b32 %0, 1, 0, all;\n"
      "}\n"
      : "=r"(any)
      : "r"(barrier), "r"(threads), "r"(static_cast<int>(value))
      : "memory");
  return any != 0;
}
