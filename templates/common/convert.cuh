// Element types: conversion, packing, and their names in mma instructions. Values travel as raw bits.
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
  static __device__ __forceinline__ void unpack(u32 pair, float& low, float& high) {
    low = __uint_as_float(pair << 16);
    high = __uint_as_float(pair & 0xffff0000u);
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
  static __device__ __forceinline__ void unpack(u32 pair, float& low, float& high) {
    low = to_float({static_cast<u16>(pair)});
    high = to_float({static_cast<u16>(pair >> 16)});
  }
};

struct Fp32 {
  float value;

  static __device__ __forceinline__ float to_float(Fp32 element) { return element.value; }
  static __device__ __forceinline__ Fp32 from_float(float value) { return {value}; }
};

// Eight bits: sign, 4 of exponent (bias 7), 3 of mantissa; no infinity, and NaN is 0x7f.
struct E4m3 {
  u8 bits;
};

// The two e4m3 in the lower half of `pair` as two f16, exactly. Before sm_89 NaN comes out as 480.
__device__ __forceinline__ u32 widen_e4m3x2(u32 pair) {
  u32 result;
#if __CUDA_ARCH__ >= 890
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(result) : "h"(static_cast<u16>(pair)));
#else
  const u32 high = __byte_perm(pair, 0, 0x1404);  // each in the upper byte of its 16 bits
  const u32 biased = (high & 0x80008000u) | ((high & 0x7f007f00u) >> 1);
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(biased), "r"(0x5c005c00u));  // times 2^8, twice
#endif
  return result;
}

// The four e4m3 of `word` as f16, exactly: those of its lower half in x. Before sm_89 NaN comes out as 480. From a
// whole word, because the conversion takes either half of a register, which a shift would have to move first.
__device__ __forceinline__ uint2 widen_e4m3x4(u32 word) {
#if __CUDA_ARCH__ >= 890
  uint2 result;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, low;\ncvt.rn.f16x2.e4m3x2 %1, high;\n}\n"
      : "=r"(result.x), "=r"(result.y)
      : "r"(word));
  return result;
#else
  return make_uint2(widen_e4m3x2(word), widen_e4m3x2(word >> 16));
#endif
}

// Eight e4m3 as f16.
__device__ __forceinline__ uint4 widen_e4m3x8(uint2 words) {
  const uint2 low = widen_e4m3x4(words.x), high = widen_e4m3x4(words.y);
  return make_uint4(low.x, low.y, high.x, high.y);
}

// To nearest, ties to even; beyond 448 and infinity to 448, NaN to 0x7f. For devices without the instruction.
__device__ __forceinline__ u32 narrow_e4m3_in_software(float value) {
  const u32 bits = __float_as_uint(value), sign = bits >> 24 & 0x80u;
  const float magnitude = fabsf(value);
  if (!(magnitude == magnitude)) return 0x7fu;
  if (magnitude >= 448.0f) return sign | 0x7eu;
  const int exponent = max(int(bits >> 23 & 0xffu) - 127, -6);
  // Steps of 2^(exponent - 3); 16 of them are 8 of the next exponent, whose code follows.
  const int steps = __float2int_rn(magnitude * __int_as_float((130 - exponent) << 23));
  return sign | u32(((exponent + 6) << 3) + steps);
}

// Two values to e4m3, `low` in the lower byte.
__device__ __forceinline__ u32 narrow_e4m3x2(float low, float high) {
#if __CUDA_ARCH__ >= 890
  u16 result;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(result) : "f"(high), "f"(low));
  return result;
#else
  return narrow_e4m3_in_software(low) | narrow_e4m3_in_software(high) << 8;
#endif
}

// Products of two pairs of bf16. Subnormal ones are not flushed to zero.
__device__ __forceinline__ u32 multiply_bf16x2(u32 pair, u32 factors) {
  u32 result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(pair), "r"(factors), "r"(0x80008000u));
  return result;
}

// Two elements of a type as those of another, and eight.
template <typename From, typename To>
__device__ __forceinline__ u32 convert_pair(u32 pair) {
  float low, high;
  From::unpack(pair, low, high);
  return To::pack(low, high);
}
template <typename From, typename To>
__device__ __forceinline__ uint4 convert_unit(uint4 pairs) {
  return make_uint4(convert_pair<From, To>(pairs.x), convert_pair<From, To>(pairs.y), convert_pair<From, To>(pairs.z),
                    convert_pair<From, To>(pairs.w));
}

// The value after rounding to the element type.
template <typename Element>
__device__ __forceinline__ float round_through(float value) {
  return Element::to_float(Element::from_float(value));
}
