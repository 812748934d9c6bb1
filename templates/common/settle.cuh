// Makes a thread wait for a value at one place in the program. By itself the assembler reads a parameter at its first
// use, again if registers are short, and drops the result of an atomic operation that nothing uses.
//
// tests/simt/device/templates/common/settle.cuh holds the same for the CPU.
#pragma once

#include "templates/common/types.cuh"

// Returns when the value is in a register. Only 2^32 - 1 executes the fence, which costs time and changes nothing. If a
// bit were known to be zero, the assembler could prove that the fence never runs, and not wait: so a value is neither
// widened nor masked.
__device__ __forceinline__ void settle(u32 value) {
  asm volatile(
      "{\n"
      ".reg .pred ones;\n"
      "setp.eq.u32 ones, %0, 0xffffffff;\n"
      "@ones membar.cta;\n"
      "}\n" ::"r"(value)
      : "memory");
}

// Keeps what is computed from a loaded value from being waited for earlier than here.
__device__ __forceinline__ int needed_now(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

__device__ __forceinline__ u32 word_of(u64 value) { return u32(value) ^ u32(value >> 32); }
__device__ __forceinline__ u32 word_of(const void* pointer) { return word_of(reinterpret_cast<u64>(pointer)); }
__device__ __forceinline__ u32 word_of(int value) { return u32(value); }
__device__ __forceinline__ u32 word_of(u32 value) { return value; }
__device__ __forceinline__ u32 word_of(i64 value) { return word_of(u64(value)); }

// Reads kernel parameters now; read_early of dependent_launch.cuh only lets the assembler do so. One parameter of each
// 64 bytes is enough. At least one of them is an int, of which every bit may be set.
template <typename... Parameters>
__device__ __forceinline__ void settle_parameters(Parameters... parameters) {
  settle((word_of(parameters) ^ ...));
}
