// Stands in for templates/common/settle.cuh on the CPU, where a value is there when it is computed.
#pragma once

#include "templates/common/types.cuh"

__device__ __forceinline__ void settle(u32 value) {}

__device__ __forceinline__ int needed_now(int value) { return value; }

__device__ __forceinline__ u32 word_of(u64 value) { return u32(value) ^ u32(value >> 32); }
__device__ __forceinline__ u32 word_of(const void* pointer) { return word_of(reinterpret_cast<u64>(pointer)); }
__device__ __forceinline__ u32 word_of(int value) { return u32(value); }
__device__ __forceinline__ u32 word_of(u32 value) { return value; }
__device__ __forceinline__ u32 word_of(i64 value) { return word_of(u64(value)); }

template <typename... Parameters>
__device__ __forceinline__ void settle_parameters(Parameters... parameters) {}
