// Words that the blocks of a cluster send into each other's shared memory (sm_90+). A block's inbox counts the bytes as
// they land, so that it waits for those words alone: a barrier of the cluster would also wait until all stores to
// global memory are seen by the others (some 600 ns on an H100).
//
// An inbox is a word of shared memory at the same offset in every block; its phases are numbered from 0. A block must
// not end before its last expected byte is there. tests/simt/device/templates/common/cluster_inbox.cuh holds the same
// for the CPU.
#pragma once

#include "templates/common/cluster.cuh"
#include "templates/common/mbarrier.cuh"

// One thread, before a barrier of the cluster after which others may send.
__device__ __forceinline__ void inbox_init(u64* inbox) {
#if __CUDA_ARCH__ >= 900
  mbarrier_init(shared_address(inbox), 1);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// One thread, once a phase; some of the bytes may be there already.
__device__ __forceinline__ void inbox_expect(u64* inbox, u32 bytes) {
#if __CUDA_ARCH__ >= 900
  mbarrier_arrive_expect(shared_address(inbox), bytes);
#endif
}

// Waits until all words of the phase are there. Nobody may lag behind by a whole phase.
__device__ __forceinline__ void inbox_wait(u64* inbox, u32 phase) {
#if __CUDA_ARCH__ >= 900
  mbarrier_wait_cluster(shared_address(inbox), phase & 1);
#endif
}

// Sends 1, 2 or 4 words, aligned to their size, to the place of `own` in block `rank`. If that is this block, `own` may
// be read again only after the phase.
template <int kWords>
__device__ __forceinline__ void send_words(const u32* own, u32 rank, u64* inbox) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
#if __CUDA_ARCH__ >= 900
  const u32 to = cluster_address(shared_address(own), rank), there = cluster_address(shared_address(inbox), rank);
  if constexpr (kWords == 4) {
    const uint4 words = *reinterpret_cast<const uint4*>(own);
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
        "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w), "r"(there)
        : "memory");
  } else if constexpr (kWords == 2) {
    const uint2 words = *reinterpret_cast<const uint2*>(own);
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(to),
                 "r"(words.x), "r"(words.y), "r"(there)
                 : "memory");
  } else {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to), "r"(*own),
                 "r"(there)
                 : "memory");
  }
#endif
}
