// Stands in for templates/common/barrier.cuh on the CPU.
#pragma once

#include "templates/common/types.cuh"

__device__ __forceinline__ void named_barrier_sync(int barrier, int threads) {
  simt::runtime->barrier("named barrier", barrier, threads, 0);
}

__device__ __forceinline__ void named_barrier_arrive(int barrier, int threads) {
  simt::runtime->arrive(barrier, threads);
}

__device__ __forceinline__ bool named_barrier_any(int barrier, int threads, bool value) {
  return simt::runtime->barrier("named barrier", barrier, threads, value).nonzero != 0;
}
