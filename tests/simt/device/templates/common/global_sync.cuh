// Stands in for templates/common/global_sync.cuh on the CPU: memory is sequentially consistent, and who looks at it
// lets the others run.
#pragma once

#include "templates/common/types.cuh"

__device__ __forceinline__ u32 load_acquire(const u32* address) {
  simt::runtime->yield();
  return *address;
}

__device__ __forceinline__ u64 load_acquire(const u64* address) {
  simt::runtime->yield();
  return *address;
}

__device__ __forceinline__ u32 load_relaxed(const u32* address) { return load_acquire(address); }

__device__ __forceinline__ float load_past_l1(const float* from) { return *from; }

__device__ __forceinline__ float2 load_past_l1(const float2* from) { return *from; }

__device__ __forceinline__ void store_release(u32* address, u32 value) {
  *address = value;
  simt::runtime->step(true);
}

__device__ __forceinline__ void store_release(u64* address, u64 value) {
  *address = value;
  simt::runtime->step(true);
}

__device__ __forceinline__ u32 add_release(u32* address, u32 value) { return atomicAdd(address, value); }

__device__ __forceinline__ u32 add_acquire_release(u32* address, u32 value) { return atomicAdd(address, value); }

__device__ __forceinline__ void wait_until_equal(const u32* address, u32 value) {
  simt::runtime->wait(address, value, false);
}

__device__ __forceinline__ u32 wait_until_at_least(const u32* address, u32 value) {
  simt::runtime->wait(address, value, true);
  return *address;
}
