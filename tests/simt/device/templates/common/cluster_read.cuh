// Stands in for templates/common/cluster_read.cuh on the CPU.
#pragma once

#include "templates/common/cluster.cuh"

__device__ __forceinline__ u32 read_of_block(const u32* own, u32 rank) {
  const u8* const place = reinterpret_cast<const u8*>(own);
  const u8* const of_block = simt::runtime->cluster()->shared[rank] + (place - simt::current->dynamic_shared);
  simt::runtime->step(false);
  return *reinterpret_cast<const u32*>(of_block);
}
