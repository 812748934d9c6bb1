// Values that are waited for where the program says so. The assembler reads parameters at their first use, again if
// registers are short, and drops what an atomic operation returns if nobody looks at it.
//
// tests/simt/device/templates/common/settle.cuh holds the same for the CPU.
#pragma once

#include "templates/common/types.cuh"

// Returns when the value is in a register. It must never be 2^64 - 1: for that one alone the fence is passed.
__device__ __forceinline__ void settle(u64 value) {
  asm volatile(
      "{\n"
      ".reg .pred never;\n"
      "setp.eq.u64 never, %0, 0xffffffffffffffff;\n"
      "@never membar.cta;\n"
      "}\n" ::"l"(value)
      : "memory");
}

__device__ __forceinline__ u64 word_of(const void* pointer) { return reinterpret_cast<u64>(pointer); }
__device__ __forceinline__ u64 word_of(int value) { return u32(value); }
__device__ __forceinline__ u64 word_of(u32 value) { return value; }
__device__ __forceinline__ u64 word_of(i64 value) { return u64(value); }

// Reads kernel parameters now, as read_early of dependent_launch.cuh does, for certain: one of each 64 bytes is enough.
template <typename... Parameters>
__device__ __forceinline__ void settle_parameters(Parameters... parameters) {
  settle((word_of(parameters) ^ ...) & ~1ull);
}
