// Stands in for templates/common/cluster_bits.cuh on the CPU.
#pragma once

#include "templates/common/cluster.cuh"

__device__ __forceinline__ void or_into_block(u32* own, u32 rank, u32 bits) {
  u8* const of_block = simt::runtime->cluster()->shared[rank];
  const auto offset = reinterpret_cast<u8*>(own) - simt::current->dynamic_shared;
  atomicOr(reinterpret_cast<u32*>(of_block + offset), bits);
}
