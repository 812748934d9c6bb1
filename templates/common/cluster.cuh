// Thread-block clusters (sm_90+; before that every block is alone): the barrier over all their threads, and
// stores into another block's shared memory that an mbarrier there counts.
#pragma once

#include "templates/common/types.cuh"

// Blocks of this block's cluster; 1 where it was launched without one.
__device__ __forceinline__ u32 cluster_size() {
  u32 size = 1;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
#endif
  return size;
}

__device__ __forceinline__ u32 cluster_rank() {
  u32 rank = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return rank;
}

// Every thread of the cluster arrives, then waits: what was written before an arrival is seen after the wait.
__device__ __forceinline__ void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

// The same without a release: other blocks need not see what was written before.
__device__ __forceinline__ void cluster_arrive_relaxed() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

__device__ __forceinline__ void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// The address, for the stores below, of what lies at shared address `address` in block `rank` of the cluster.
__device__ __forceinline__ u32 cluster_address(u32 address, u32 rank) {
  u32 mapped = address;
#if __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
#endif
  return mapped;
}

// Stores that `barrier`, an mbarrier of the same block as `address`, counts in bytes as they land.
__device__ __forceinline__ void cluster_store(u32 address, u32 barrier, float4 value) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
      "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(barrier)
      : "memory");
#endif
}

__device__ __forceinline__ void cluster_store(u32 address, u32 barrier, float value) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(address),
               "f"(value), "r"(barrier)
               : "memory");
#endif
}
