// How blocks tell each other that something in global memory is ready: flags and counters with acquire and
// release order at the scope of the GPU (sm_70+).
//
// What a thread wrote, or saw another thread of its block write before a __syncthreads, comes before its
// release; what a thread reads after an acquire that saw that value comes after it. So the usual pair is
//   writers: all threads write; __syncthreads(); one thread: store_release or add_release
//   readers: one thread: wait_until_...; __syncthreads(); all threads read, but not by __ldg or ld.nc
// A block may wait only for blocks that are sure to run: those of a grid that fits the GPU at once, or those
// with a smaller ticket from an atomic counter.
//
// tests/simt/device/templates/common/global_sync.cuh holds the same for the CPU.
#pragma once

#include "templates/common/types.cuh"

__device__ __forceinline__ u32 load_acquire(const u32* address) {
  u32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

__device__ __forceinline__ u64 load_acquire(const u64* address) {
  u64 value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  return value;
}

// Not ordered with accesses to other addresses. No inline PTX, so that loads at constant distances share one address.
__device__ __forceinline__ u32 load_relaxed(const u32* address) { return *const_cast<const volatile u32*>(address); }

// Past L1, and never moved before a wait for the kernel that wrote it, as an intrinsic may be.
__device__ __forceinline__ float load_past_l1(const float* from) {
  float value;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(value) : "l"(from) : "memory");
  return value;
}

__device__ __forceinline__ float2 load_past_l1(const float2* from) {
  float2 value;
  asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "l"(from) : "memory");
  return value;
}

__device__ __forceinline__ void store_release(u32* address, u32 value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void store_release(u64* address, u64 value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

// Adds, and returns what was there before. A release alone: whoever reads what others released by the same
// counter (the last one to arrive, say) needs add_acquire_release.
__device__ __forceinline__ u32 add_release(u32* address, u32 value) {
  u32 before;
  asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(address), "r"(value) : "memory");
  return before;
}

__device__ __forceinline__ u32 add_acquire_release(u32* address, u32 value) {
  u32 before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(address), "r"(value) : "memory");
  return before;
}

// Spins until the value is `value`.
__device__ __forceinline__ void wait_until_equal(const u32* address, u32 value) {
  while (load_acquire(address) != value) {
  }
}

// Spins until the value has reached `value`, and returns it. Counts modulo 2^32: reached is what is less than
// 2^31 ahead, so that a counter may run on for ever.
__device__ __forceinline__ u32 wait_until_at_least(const u32* address, u32 value) {
  u32 now = load_acquire(address);
  while (static_cast<i32>(now - value) < 0) now = load_acquire(address);
  return now;
}
