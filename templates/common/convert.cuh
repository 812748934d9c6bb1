// 16-bit element types: conversion, packing, and their names in mma instructions. Values travel as raw bits.
#pragma once

#include "templates/common/types.cuh"

struct Bf16 {
  u16 bits;

  static __device__ __forceinline__ float to_float(Bf16 value) {
    return __int_as_float(static_cast<int>(value.bits) << 16);
  }
  static __device__ __forceinline__ Bf16 from_float(float value) {
    Bf16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
  }
  // `low` lands in the lower half: the element with the smaller index.
  static __device__ __forceinline__ u32 pack(float low, float high) {
    u32 result;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
  }
};

struct Fp16 {
  u16 bits;

  static __device__ __forceinline__ float to_float(Fp16 value) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
  }
  static __device__ __forceinline__ Fp16 from_float(float value) {
    Fp16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
  }
  static __device__ __forceinline__ u32 pack(float low, float high) {
    u32 result;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
  }
};

// What rounding to the element type does to a value.
template <typename Element>
__device__ __forceinline__ float round_through(float value) {
  return Element::to_float(Element::from_float(value));
}
