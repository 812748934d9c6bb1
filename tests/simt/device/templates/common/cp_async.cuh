// Stands in for templates/common/cp_async.cuh on the CPU. Every other copy is made at once, the rest when this thread
// waits for its group, or for an arrival behind them when no thread gets any further without: so both a buffer that is
// filled too early and one that is read without waiting show.
#pragma once

#include "templates/common/types.cuh"

namespace simt {

inline void make_copy(u32 destination, const void* source) {
  *static_cast<uint4*>(from_shared(destination)) =
      source == nullptr ? make_uint4(0, 0, 0, 0) : *static_cast<const uint4*>(source);
}

inline void defer(const void* source, u32 destination, bool arrives) {
  const Thread* const thread = current;
  auto* const copy = static_cast<PendingCopy*>(__builtin_malloc(sizeof(PendingCopy)));
  *copy = {source, destination, thread->copy_group, arrives, nullptr};
  (thread->oldest_copy == nullptr ? thread->oldest_copy : thread->newest_copy->next) = copy;
  thread->newest_copy = copy;
}

}  // namespace simt

__device__ __forceinline__ u32 in_vector_register(u32 value) { return __shfl_sync(0xFFFFFFFFu, value, 0); }

__device__ __forceinline__ void cp_async_16(u32 destination, const void* source, bool valid, u64 policy) {
  if (destination % 16 != 0 || reinterpret_cast<u64>(source) % 16 != 0)
    simt::runtime->fail("cp_async_16: an address is not aligned to 16 bytes");
  const void* const from = valid ? source : nullptr;
  if ((destination / 16 + simt::current->lane) % 2 == 0) return simt::make_copy(destination, from);
  simt::defer(from, destination, false);
}

__device__ __forceinline__ void cp_async_commit() { ++simt::current->copy_group; }

template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  simt::runtime->make_copies(simt::current->copy_group - kPending);
}

__device__ __forceinline__ void cp_async_arrive(u32 barrier) {
  simt::defer(nullptr, barrier, true);
  simt::runtime->await_copies();
}
