// Stands in for templates/common/multicast.cuh on the CPU.
#pragma once

#include "templates/common/cluster.cuh"
#include "templates/common/tma.cuh"

__device__ __forceinline__ void tma_multicast_5d(u32 destination, const TensorMap& map, u32 barrier, u16 blocks,
                                                 u64 policy, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4) {
  if (blocks == 0) simt::runtime->fail("tma_multicast_5d to no block");
  const simt::BulkCopy copy = {destination, barrier, &map, 0, 5, {c0, c1, c2, c3, c4}, blocks};
  simt::runtime->bulk_copy(&copy);
}

__device__ __forceinline__ void mbarrier_arrive_block(u32 barrier, u32 rank) {
  simt::runtime->mbarrier_arrive(cluster_address(barrier, rank));
}
