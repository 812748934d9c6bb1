// Contiguous copies by the bulk copy engine (sm_90+). One thread asks. Of a load an mbarrier counts the bytes as they
// land; stores are waited for by their thread.
#pragma once

#include "templates/common/types.cuh"

// Addresses and `bytes` are multiples of 16.
__device__ __forceinline__ void bulk_load(u32 destination, const void* source, u32 bytes, u32 barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], %4;" ::"r"(destination),
      "l"(source), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

// Addresses and `bytes` are multiples of 16. What other threads wrote to `source` needs fence_async_proxy first.
__device__ __forceinline__ void bulk_store(void* destination, u32 source, u32 bytes, u64 policy) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(destination),
               "r"(source), "r"(bytes), "l"(policy)
               : "memory");
}

// Ends a group of this thread's stores.
__device__ __forceinline__ void bulk_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Returns when all but the last kPending groups have read shared memory.
template <int kPending>
__device__ __forceinline__ void bulk_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Returns when all groups have written.
__device__ __forceinline__ void bulk_store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
