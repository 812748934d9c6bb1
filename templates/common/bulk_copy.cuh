// Contiguous copies by the bulk copy engine (sm_90+): one thread asks, an mbarrier counts the bytes as they
// land.
#pragma once

#include "templates/common/types.cuh"

// Addresses and `bytes` are multiples of 16.
__device__ __forceinline__ void bulk_load(u32 destination, const void* source, u32 bytes, u32 barrier,
                                          u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], %4;" ::"r"(destination),
      "l"(source), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}
