// L2: eviction policies for data that is read once (sm_80+), and prefetches.
#pragma once

#include "templates/common/types.cuh"

__device__ __forceinline__ u64 l2_policy(bool evict_first) {
  u64 policy;
  if (evict_first) {
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  } else {
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  }
  return policy;
}

// The line of an address, on its way: right whatever is written there until it is read.
__device__ __forceinline__ void prefetch_to_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address) : "memory");
}
