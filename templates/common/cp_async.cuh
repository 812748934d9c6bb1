// Asynchronous copies from global to shared memory (sm_80+), tracked per thread in commit groups.
#pragma once

#include "templates/common/types.cuh"

// The same value in a vector register. ptxas 13.0 miscompiles cp.async with an L2 policy whose shared address is a
// lane's offset plus a uniform register (`LDGSTS [R+UR], desc[UR1]`: an illegal instruction when run), on Blackwell
// even if the base went through here. So a copy has a policy only where figures say that it pays, on Blackwell never,
// and tests look for that instruction (tests/tuner/compile/space_compile_test.cc).
__device__ __forceinline__ u32 in_vector_register(u32 value) { return __shfl_sync(0xFFFFFFFFu, value, 0); }

// Copies 16 bytes, or writes 16 zero bytes without reading `source` where `valid` is false.
__device__ __forceinline__ void cp_async_16(u32 destination, const void* source, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination), "l"(source), "r"(valid ? 16 : 0)
               : "memory");
}

// The same with an L2 policy, before Blackwell.
__device__ __forceinline__ void cp_async_16(u32 destination, const void* source, bool valid, u64 policy) {
#if __CUDA_ARCH__ >= 1000
  cp_async_16(destination, source, valid);
#else
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(destination), "l"(source),
               "r"(valid ? 16 : 0), "l"(policy)
               : "memory");
#endif
}

// The same of what no kernel in front writes that lets this one begin early, as weights: right before the wait too.
__device__ __forceinline__ void cp_async_16_of_constant(u32 destination, const void* source, bool valid) {
  cp_async_16(destination, source, valid);
}

// Copies 4 bytes.
__device__ __forceinline__ void cp_async_4(u32 destination, const void* source) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(destination), "l"(source) : "memory");
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Returns when at most `kPending` of this thread's newest groups are still under way.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// An arrival on `barrier` (an mbarrier, sm_90+) once all copies that this thread has asked for so far have
// landed. It counts among the arrivals that the barrier was initialized with.
__device__ __forceinline__ void cp_async_arrive(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
