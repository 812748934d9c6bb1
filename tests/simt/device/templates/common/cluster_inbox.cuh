// Stands in for templates/common/cluster_inbox.cuh on the CPU: an inbox is its number of full phases, and the bytes
// that the present phase still lacks, with a large number more until these are known.
#pragma once

#include "templates/common/cluster.cuh"

constexpr u32 kUnknownBytes = 1u << 30;

inline void inbox_count(u32* inbox, u32 bytes) {
  inbox[1] += bytes;
  if (inbox[1] != 0) return;
  inbox[1] = kUnknownBytes;
  atomicAdd(&inbox[0], 1u);
}

__device__ __forceinline__ void inbox_init(u64* inbox) { *inbox = u64(kUnknownBytes) << 32; }

__device__ __forceinline__ void inbox_expect(u64* inbox, u32 bytes) {
  inbox_count(reinterpret_cast<u32*>(inbox), bytes - kUnknownBytes);
}

__device__ __forceinline__ void inbox_wait(u64* inbox, u32 phase) {
  simt::runtime->wait(reinterpret_cast<u32*>(inbox), phase + 1, true);
}

template <int kWords>
__device__ __forceinline__ void send_words(const u32* own, u32 rank, u64* inbox) {
  u8* const shared = simt::runtime->cluster()->shared[rank];
  const auto there = [&](const void* here) {
    return reinterpret_cast<u32*>(shared + (static_cast<const u8*>(here) - simt::current->dynamic_shared));
  };
  for (int w = 0; w < kWords; ++w) there(own)[w] = own[w];
  inbox_count(there(inbox), -u32(kWords * sizeof(u32)));
}
