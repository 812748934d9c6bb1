// Programmatic dependent launch: a kernel may start while its predecessor drains (sm_90+; nothing before).
#pragma once

// Lets the next kernel's blocks be scheduled once every block here has said so or ended.
__device__ __forceinline__ void allow_dependent_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Returns when all kernels before this one have ended and their writes are visible.
__device__ __forceinline__ void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Reads, before the wait, a value that no kernel still running writes: past L1, which may hold an earlier one.
__device__ __forceinline__ int read_settled(const int* from) {
  int value;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

// Reads, before the wait, a value that another kernel may be changing: it may only choose what to prefetch.
__device__ __forceinline__ int read_hint(const int* from) { return read_settled(from); }

// Reads kernel parameters now, before the wait: the first read of each line of them misses the constant cache,
// and behind the wait a short kernel would stand still for it.
template <typename Parameter>
__device__ __forceinline__ void read_one_early(Parameter parameter) {
  asm volatile("" ::"l"(parameter));
}

template <typename... Parameters>
__device__ __forceinline__ void read_early(Parameters... parameters) {
  (read_one_early(parameters), ...);
}
