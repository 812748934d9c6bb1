// Makes a thread wait for a value at one place in the program. By itself the assembler reads a parameter at its first
// use, again if registers are short, and drops the result of an atomic operation that nothing uses.
//
// tests/simt/device/templates/common/settle.cuh holds the same for the CPU.
#pragma once

#include "templates/common/types.cuh"

// Returns when the value is in a register. Only 2^64 - 1 executes the fence, which costs time and changes nothing.
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

// Reads kernel parameters now; read_early of dependent_launch.cuh only lets the assembler do so. One parameter of each
// 64 bytes is enough.
template <typename... Parameters>
__device__ __forceinline__ void settle_parameters(Parameters... parameters) {
  settle((word_of(parameters) ^ ...) & ~1ull);
}
