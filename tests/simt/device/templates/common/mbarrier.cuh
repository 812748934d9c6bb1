// Stands in for templates/common/mbarrier.cuh on the CPU: the emulator keeps what a barrier has counted, and reports
// one that was not initialized, or that was overwritten.
#pragma once

#include "templates/common/types.cuh"

__device__ __forceinline__ void mbarrier_init(u32 barrier, u32 arrivals) {
  simt::runtime->mbarrier_init(barrier, arrivals);
}

__device__ __forceinline__ void mbarrier_init_fence() {}

__device__ __forceinline__ void mbarrier_arrive(u32 barrier) { simt::runtime->mbarrier_arrive(barrier); }

__device__ __forceinline__ void mbarrier_arrive_expect(u32 barrier, u32 bytes) {
  simt::runtime->mbarrier_expect(barrier, bytes);
  simt::runtime->mbarrier_arrive(barrier);
}

__device__ __forceinline__ void mbarrier_wait(u32 barrier, u32 parity) {
  simt::runtime->mbarrier_wait(barrier, parity);
}

__device__ __forceinline__ void mbarrier_wait_cluster(u32 barrier, u32 parity) { mbarrier_wait(barrier, parity); }
