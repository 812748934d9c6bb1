// Arithmetic built-ins. Approximate functions of the GPU are exact here to within a float's rounding: what a
// template gives on a GPU differs by that.
#pragma once

#include "simt_types.h"

extern "C" {
float sqrtf(float), expf(float), exp2f(float), logf(float), log2f(float), log10f(float), log1pf(float), expm1f(float),
    tanhf(float), sinf(float), cosf(float), erff(float), fabsf(float), floorf(float), ceilf(float), truncf(float),
    rintf(float), nearbyintf(float), roundf(float);
float fmaf(float, float, float), fmaxf(float, float), fminf(float, float), powf(float, float), fmodf(float, float),
    copysignf(float, float), ldexpf(float, int);
double sqrt(double), exp(double), exp2(double), log(double), log2(double), fabs(double), floor(double), ceil(double),
    fma(double, double, double), fmax(double, double), fmin(double, double);
int printf(const char*, ...);
}

#define SIMT_MIN_MAX(type)                                            \
  inline constexpr type min(type a, type b) { return b < a ? b : a; } \
  inline constexpr type max(type a, type b) { return a < b ? b : a; }
SIMT_MIN_MAX(int)
SIMT_MIN_MAX(unsigned)
SIMT_MIN_MAX(long)
SIMT_MIN_MAX(unsigned long)
SIMT_MIN_MAX(long long)
SIMT_MIN_MAX(unsigned long long)
#undef SIMT_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

inline bool isnan(float value) { return __builtin_isnan(value); }
inline bool isinf(float value) { return __builtin_isinf(value); }
inline bool isfinite(float value) { return __builtin_isfinite(value); }
inline float rsqrtf(float value) { return 1.0f / sqrtf(value); }
inline float __frsqrt_rn(float value) { return 1.0f / sqrtf(value); }
inline float __fsqrt_rn(float value) { return sqrtf(value); }
inline float __expf(float value) { return expf(value); }
inline float __exp10f(float value) { return powf(10.0f, value); }
inline float __logf(float value) { return logf(value); }
inline float __log2f(float value) { return log2f(value); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float value) { return 1.0f / value; }
inline float __saturatef(float value) { return value > 0 ? (value < 1 ? value : 1.0f) : 0.0f; }

// Built without contraction: each operation rounds by itself.
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }

namespace simt {

// As the GPU converts: what does not fit saturates, NaN is 0 (the least value of 64-bit types).
template <typename To>
inline To to_integer(double value) {
  constexpr bool kSigned = To(-1) < To(0);
  constexpr int kBits = 8 * sizeof(To);
  constexpr To kLeast = kSigned ? To(1ull << (kBits - 1)) : To(0), kMost = ~kLeast;
  if (value != value) return kBits == 64 ? To(1ull << 63) : To(0);
  if (value <= double(kLeast)) return kLeast;
  if (value >= double(kMost)) return kMost;
  return To(value);
}

}  // namespace simt

inline int __float2int_rn(float value) { return simt::to_integer<int>(nearbyintf(value)); }
inline int __float2int_rz(float value) { return simt::to_integer<int>(truncf(value)); }
inline int __float2int_rd(float value) { return simt::to_integer<int>(floorf(value)); }
inline int __float2int_ru(float value) { return simt::to_integer<int>(ceilf(value)); }
inline unsigned __float2uint_rn(float value) { return simt::to_integer<unsigned>(nearbyintf(value)); }
inline unsigned __float2uint_rz(float value) { return simt::to_integer<unsigned>(truncf(value)); }
inline long long __float2ll_rn(float value) { return simt::to_integer<long long>(nearbyintf(value)); }
inline float __int2float_rn(int value) { return static_cast<float>(value); }
inline float __uint2float_rn(unsigned value) { return static_cast<float>(value); }

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(bits); }
inline int __clzll(long long bits) { return bits == 0 ? 64 : __builtin_clzll(bits); }
inline unsigned __brev(unsigned bits) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (bits >> i & 1) << (31 - i);
  return reversed;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return ((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31)) >> 32;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return (static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31);
}
// Byte i of the result is byte (selector >> 4i & 7) of y:x; with bit 3 of the selector its sign, eight times.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned which = selector >> (4 * i), byte = bytes >> (8 * (which & 7)) & 0xff;
    result |= ((which & 8) ? (byte >> 7) * 0xff : byte) << (8 * i);
  }
  return result;
}
inline int __mul24(int a, int b) { return a * b; }
inline int __mulhi(int a, int b) { return static_cast<long long>(a) * b >> 32; }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned long long>(a) * b >> 32; }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned __int128>(a) * b >> 64;
}
