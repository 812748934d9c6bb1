// Stands in for templates/common/bulk_copy.cuh on the CPU. Every other store is made at once, the rest when this thread
// waits for its group: so both a source that changes too early and a store that is not waited for show.
#pragma once

#include "templates/common/types.cuh"

__device__ __forceinline__ void bulk_load(u32 destination, const void* source, u32 bytes, u32 barrier, u64 policy) {
  const simt::BulkCopy copy = {destination, barrier, source, bytes, 0, {}, 0};
  simt::runtime->bulk_copy(&copy);
}

namespace simt {

inline void make_store(const PendingStore& one) {
  __builtin_memcpy(one.destination, from_shared(one.source), one.bytes);
}

inline void make_stores(u32 before) {
  while (current->oldest_store != nullptr && int(current->oldest_store->group - before) < 0) {
    PendingStore* const one = current->oldest_store;
    make_store(*one);
    current->oldest_store = one->next;
    __builtin_free(one);
  }
}

}  // namespace simt

__device__ __forceinline__ void bulk_store(void* destination, u32 source, u32 bytes, u64 policy) {
  if (bytes == 0 || bytes % 16 != 0 || source % 16 != 0 || reinterpret_cast<u64>(destination) % 16 != 0)
    simt::runtime->fail("bulk store: an address or the size is no multiple of 16");
  const simt::Thread* const thread = simt::current;
  const simt::PendingStore one = {destination, bytes, source, thread->store_group, nullptr};
  if ((source / 16 + thread->store_group) % 2 == 0) return simt::make_store(one);
  auto* const kept = static_cast<simt::PendingStore*>(__builtin_malloc(sizeof one));
  *kept = one;
  (thread->oldest_store == nullptr ? thread->oldest_store : thread->newest_store->next) = kept;
  thread->newest_store = kept;
}

__device__ __forceinline__ void bulk_store_commit() { ++simt::current->store_group; }

template <int kPending>
__device__ __forceinline__ void bulk_store_wait_read() {
  simt::make_stores(simt::current->store_group - kPending);
}

__device__ __forceinline__ void bulk_store_wait() { simt::make_stores(simt::current->store_group); }
