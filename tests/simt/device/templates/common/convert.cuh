// Stands in for templates/common/convert.cuh on the CPU: the same types, converted bit for bit as PTX's cvt does.
#pragma once

#include "templates/common/types.cuh"

#define Bf16 PtxBf16
#define Fp16 PtxFp16
#define widen_e4m3x2 ptx_widen_e4m3x2
#define widen_e4m3x4 ptx_widen_e4m3x4
#define widen_e4m3x8 ptx_widen_e4m3x8
#define narrow_e4m3x2 ptx_narrow_e4m3x2
#define multiply_bf16x2 ptx_multiply_bf16x2
#include_next "templates/common/convert.cuh"
#undef Bf16
#undef Fp16
#undef widen_e4m3x2
#undef widen_e4m3x4
#undef widen_e4m3x8
#undef narrow_e4m3x2
#undef multiply_bf16x2

struct Bf16 {
  u16 bits;

  static __device__ __forceinline__ float to_float(Bf16 value) { return __uint_as_float(u32{value.bits} << 16); }
  static __device__ __forceinline__ Bf16 from_float(float value) {
    if (isnan(value)) return {0x7fff};
    const u32 word = __float_as_uint(value);
    return {static_cast<u16>((word + 0x7fff + (word >> 16 & 1)) >> 16)};  // to nearest, ties to even
  }
  static __device__ __forceinline__ u32 pack(float low, float high) {
    return u32{from_float(low).bits} | u32{from_float(high).bits} << 16;
  }
  static __device__ __forceinline__ void unpack(u32 pair, float& low, float& high) {
    low = __uint_as_float(pair << 16);
    high = __uint_as_float(pair & 0xffff0000u);
  }
};

struct Fp16 {
  u16 bits;

  static __device__ __forceinline__ float to_float(Fp16 value) {
    const u32 sign = u32{value.bits} >> 15 << 31, magnitude = value.bits & 0x7fffu;
    if (magnitude >= 0x7c00) return __uint_as_float(sign | 0x7f800000u | (magnitude & 0x3ff) << 13);
    const float scaled = __uint_as_float(magnitude << 13) * 0x1p112f;  // subnormals come out right as well
    return __uint_as_float(sign | __float_as_uint(scaled));
  }
  static __device__ __forceinline__ Fp16 from_float(float value) {
    const u32 word = __float_as_uint(value), magnitude = word & 0x7fffffffu;
    const u16 sign = static_cast<u16>(word >> 16 & 0x8000u);
    if (magnitude > 0x7f800000u) return {0x7fff};
    if (magnitude >= 0x477ff000u) return {static_cast<u16>(sign | 0x7c00)};  // 65520 and more
    if (magnitude < 0x38800000u) {  // subnormal: whole steps of 2^-24, by the addition's rounding
      const float steps = __uint_as_float(magnitude) + 0.5f;
      return {static_cast<u16>(sign | (__float_as_uint(steps) - 0x3f000000u))};
    }
    return {static_cast<u16>(sign | (magnitude - 0x38000000u + 0xfff + (magnitude >> 13 & 1)) >> 13)};
  }
  static __device__ __forceinline__ u32 pack(float low, float high) {
    return u32{from_float(low).bits} | u32{from_float(high).bits} << 16;
  }
  static __device__ __forceinline__ void unpack(u32 pair, float& low, float& high) {
    low = to_float({static_cast<u16>(pair)});
    high = to_float({static_cast<u16>(pair >> 16)});
  }
};

// An e4m3's sign and 7 bits are an f16's whose exponent is less by 8; NaN is f16's NaN (sm_89 and up).
__device__ __forceinline__ u32 widen_e4m3x2(u32 pair) {
  u32 result = 0;
  for (int i = 0; i < 2; ++i) {
    const u32 byte = pair >> (8 * i) & 0xff, sign = byte >> 7 << 15, magnitude = byte & 0x7f;
    const float value = Fp16::to_float({static_cast<u16>(magnitude << 7)}) * 256;
    const u32 half = magnitude == 0x7f ? 0x7fffu : sign | Fp16::from_float(value).bits;
    result |= half << (16 * i);
  }
  return result;
}

__device__ __forceinline__ uint2 widen_e4m3x4(u32 word) {
  return make_uint2(widen_e4m3x2(word), widen_e4m3x2(word >> 16));
}

__device__ __forceinline__ uint4 widen_e4m3x8(uint2 words) {
  const uint2 low = widen_e4m3x4(words.x), high = widen_e4m3x4(words.y);
  return make_uint4(low.x, low.y, high.x, high.y);
}

__device__ __forceinline__ u32 narrow_e4m3x2(float low, float high) {
  return narrow_e4m3_in_software(low) | narrow_e4m3_in_software(high) << 8;
}

__device__ __forceinline__ u32 multiply_bf16x2(u32 pair, u32 factors) {
  float low, high, of_low, of_high;
  Bf16::unpack(pair, low, high);
  Bf16::unpack(factors, of_low, of_high);
  return Bf16::pack(low * of_low, high * of_high);
}
