// Tensor copies by the bulk copy engine (sm_90+): one thread asks, an mbarrier counts the bytes as they land.
#pragma once

#include "templates/common/types.cuh"

// A CUtensorMap: 128 opaque bytes that the host encodes. Kernels take it as `const __grid_constant__
// TensorMap`.
struct alignas(64) TensorMap {
  u64 words[16];
};

__device__ __forceinline__ void tma_prefetch_descriptor(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Copies the box at coordinates c (innermost first). What lies outside the tensor arrives as zeros and counts
// towards the barrier's bytes like the rest.
__device__ __forceinline__ void tma_load_5d(u32 destination, const TensorMap& map, u32 barrier, u64 policy, i32 c0,
                                            i32 c1, i32 c2, i32 c3, i32 c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;" ::"r"(destination),
      "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "r"(barrier), "l"(policy)
      : "memory");
}

// Asks for the same box to be brought into L2.
__device__ __forceinline__ void tma_prefetch_5d(const TensorMap& map, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4) {
  asm volatile("cp.async.bulk.prefetch.tensor.5d.L2.global.tile [%0, {%1, %2, %3, %4, %5}];" ::"l"(&map), "r"(c0),
               "r"(c1), "r"(c2), "r"(c3), "r"(c4)
               : "memory");
}

// Orders what this thread has seen of global memory before what it asks the copy engine to read there.
__device__ __forceinline__ void fence_async_proxy_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// Orders this thread's stores to shared memory before what the copy engine writes there later.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
