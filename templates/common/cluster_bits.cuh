// Setting bits in the shared memory of a cluster's blocks (sm_90+), all of which must be running: between two barriers
// of the cluster, after the second of which each sees its own.
//
// tests/simt/device/templates/common/cluster_bits.cuh holds the same for the CPU.
#pragma once

#include "templates/common/cluster.cuh"

// In the word of block `rank` of the cluster that lies where `own` does in this one.
__device__ __forceinline__ void or_into_block(u32* own, u32 rank, u32 bits) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.cluster.shared::cluster.or.b32 [%0], %1;" ::"r"(
                   cluster_address(shared_address(own), rank)),
               "r"(bits)
               : "memory");
#endif
}
