// Copies that land in all blocks of a cluster at once, and arrivals at barriers of its other blocks (sm_90+).
#pragma once

#include "templates/common/cluster.cuh"
#include "templates/common/tma.cuh"

// As tma_load_5d, into every block of the cluster whose bit is set in `blocks`: to the same place in each, counted by
// the barrier at the same place in each.
__device__ __forceinline__ void tma_multicast_5d(u32 destination, const TensorMap& map, u32 barrier, u16 blocks,
                                                 u64 policy, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8, %9;" ::"r"(destination),
      "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "r"(barrier), "h"(blocks), "l"(policy)
      : "memory");
}

// Arrives at the barrier at that place in block `rank` of the cluster: this thread's reads have ended, and the copy
// engine may overwrite what they read. What this thread wrote need not be seen there, so the release is of this block
// alone: one of the whole cluster waits until all of the thread's stores have left the SM (MEMBAR.ALL.GPU).
__device__ __forceinline__ void mbarrier_arrive_block(u32 barrier, u32 rank) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(cluster_address(barrier, rank)) : "memory");
}
