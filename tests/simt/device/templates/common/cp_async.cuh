// Stands in for templates/common/cp_async.cuh on the CPU. Every other copy is made at once, the rest when this thread
// waits for its group, or for an arrival behind them when no thread gets any further without: so both a buffer that is
// filled too early and one that is read without waiting show.
#pragma once

#include "templates/common/types.cuh"

namespace simt {

inline void make_copy(u32 destination, const void* source, u32 bytes) {
  if (source == nullptr)
    __builtin_memset(from_shared(destination), 0, bytes);
  else
    __builtin_memcpy(from_shared(destination), source, bytes);
}

inline void defer(const void* source, u32 bytes, u32 destination, bool arrives) {
  const Thread* const thread = current;
  auto* const copy = static_cast<PendingCopy*>(__builtin_malloc(sizeof(PendingCopy)));
  *copy = {source, bytes, destination, thread->copy_group, arrives, nullptr};
  (thread->oldest_copy == nullptr ? thread->oldest_copy : thread->newest_copy->next) = copy;
  thread->newest_copy = copy;
}

// Now or later.
inline void copy(u32 destination, const void* source, u32 bytes) {
  if (destination % bytes != 0 || reinterpret_cast<u64>(source) % bytes != 0)
    runtime->fail("cp.async: an address is not aligned to the copy's bytes");
  if ((destination / bytes + current->lane) % 2 == 0)
    make_copy(destination, source, bytes);
  else
    defer(source, bytes, destination, false);
}

}  // namespace simt

__device__ __forceinline__ u32 in_vector_register(u32 value) { return __shfl_sync(0xFFFFFFFFu, value, 0); }

__device__ __forceinline__ void cp_async_16(u32 destination, const void* source, bool valid) {
  simt::copy(destination, valid ? source : nullptr, 16);
}

__device__ __forceinline__ void cp_async_16(u32 destination, const void* source, bool valid, u64 policy) {
  cp_async_16(destination, source, valid);
}

// Made late, where inputs are hidden until the launch in front has ended.
__device__ __forceinline__ void cp_async_16_of_constant(u32 destination, const void* source, bool valid) {
  if (simt::runtime->may_read())
    cp_async_16(destination, source, valid);
  else
    simt::defer(valid ? source : nullptr, 16, destination, false);
}

__device__ __forceinline__ void cp_async_4(u32 destination, const void* source) { simt::copy(destination, source, 4); }

__device__ __forceinline__ void cp_async_commit() { ++simt::current->copy_group; }

template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  simt::runtime->make_copies(simt::current->copy_group - kPending);
}

__device__ __forceinline__ void cp_async_arrive(u32 barrier) {
  simt::defer(nullptr, 0, barrier, true);
  simt::runtime->await_copies();
}
