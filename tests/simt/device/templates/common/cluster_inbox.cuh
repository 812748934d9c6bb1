// Stands in for templates/common/cluster_inbox.cuh on the CPU.
#pragma once

#include "templates/common/cluster.cuh"
#include "templates/common/mbarrier.cuh"

__device__ __forceinline__ void inbox_init(u64* inbox) { mbarrier_init(shared_address(inbox), 1); }

__device__ __forceinline__ void inbox_expect(u64* inbox, u32 bytes) {
  mbarrier_arrive_expect(shared_address(inbox), bytes);
}

__device__ __forceinline__ void inbox_wait(u64* inbox, u32 phase) {
  mbarrier_wait_cluster(shared_address(inbox), phase & 1);
}

template <int kWords>
__device__ __forceinline__ void send_words(const u32* own, u32 rank, u64* inbox) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  simt::runtime->store_async(cluster_address(shared_address(own), rank), cluster_address(shared_address(inbox), rank),
                             own, kWords * sizeof(u32));
}
