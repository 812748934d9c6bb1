// Reading the shared memory of the other blocks of a cluster (sm_90+), which must all be running: between two barriers
// of the cluster.
//
// tests/simt/device/templates/common/cluster_read.cuh holds the same for the CPU.
#pragma once

#include "templates/common/cluster.cuh"

// What block `rank` of the cluster holds where this block holds `own`.
__device__ __forceinline__ u32 read_of_block(const u32* own, u32 rank) {
  u32 value = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("ld.shared::cluster.u32 %0, [%1];"
               : "=r"(value)
               : "r"(cluster_address(shared_address(own), rank))
               : "memory");
#endif
  return value;
}
