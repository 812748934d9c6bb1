// Asynchronous 16-byte copies from global to shared memory (sm_80+), tracked per thread in commit groups.
#pragma once

#include "templates/common/types.cuh"

// Copies 16 bytes, or writes 16 zero bytes without reading `source` where `valid` is false.
__device__ __forceinline__ void cp_async_16(u32 destination, const void* source, bool valid, u64 policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(destination),
               "l"(source), "r"(valid ? 16 : 0), "l"(policy)
               : "memory");
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Returns when at most `kPending` of this thread's newest groups are still under way.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
