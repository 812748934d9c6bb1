// Elements of every type on the device, and how a fill generates them: the twin of kernels/dtype.cc and
// kernels/buffer.cc.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

namespace {

enum Type { kF32, kF16, kBf16, kE4m3, kI32, kI64, kU8, kI8, kI16, kU16, kU32, kF64 };
enum Kind { kZeros, kNormal, kUniform, kIntegers, kConstant, kZipf, kPermutation, kColumns, kArrays, kSteps };

constexpr u32 kBlock = 256;

__device__ u64 global_thread() { return u64(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ u64 global_threads() { return u64(gridDim.x) * blockDim.x; }

__device__ u64 split_mix(u64 state) {
  u64 z = state + 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// mul.rn without .ftz whatever the compiler's options say: the host multiplies the same way.
__device__ float multiply(float a, float b) {
  float product;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(product) : "f"(a), "f"(b));
  return product;
}

// generate_element of tests/kernels/answers/host_values.cc; `factor` is the scale times the constant of the kind.
__device__ float generate(u64 kind, float factor, u64 base, u64 index) {
  const u64 word = split_mix(base + index);
  if (kind == kNormal) {
    const int sum = int(word & 0xFFFF) + int((word >> 16) & 0xFFFF) + int((word >> 32) & 0xFFFF) + int(word >> 48);
    return multiply(float(sum - 2 * 65535), factor);
  }
  if (kind == kSteps) return multiply(float(2 * int(word >> 60) - 15), factor);
  return multiply(float(2 * int(word >> 40) + 1 - (1 << 24)), factor);
}

__device__ float factor_of(u64 kind, float scale) {
  if (kind == kSteps) return scale;
  return multiply(scale, kind == kNormal ? 0x1.bb67aep-16f : 0x1p-24f);
}

// permuted_element of kernels/buffer.cc.
__device__ u64 permute(u64 elements, u64 key, u64 index) {
  const int bits = elements > 1 ? 64 - __clzll(elements - 1) : 0;
  const int half = bits > 2 ? (bits + 1) / 2 : 1;
  const u64 mask = (1ull << half) - 1;
  do {
    u64 left = index >> half, right = index & mask;
    for (u64 round = 0; round < 4; ++round) {
      const u64 mixed = left ^ (split_mix(key + (round << 32 | right)) & mask);
      left = right;
      right = mixed;
    }
    index = left << half | right;
  } while (index >= elements);
  return index;
}

__device__ float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }

// Nearest, ties to even, saturating at 448. In software: sm_80 has no such conversion.
__device__ u8 encode_e4m3(float value) {
  const u32 bits = __float_as_uint(value);
  const u8 sign = u8((bits >> 24) & 0x80);
  const float magnitude = __uint_as_float(bits & 0x7FFFFFFF);
  if (magnitude != magnitude) return sign | 0x7F;
  if (magnitude >= 448.0f) return sign | 0x7E;
  int exponent = int((bits >> 23) & 0xFF) - 127;
  if (exponent < -6) exponent = -6;
  int steps = __float2int_rn(multiply(magnitude, power_of_two(3 - exponent)));
  if (steps < 8) return sign | u8(steps);
  if (steps == 16) {
    steps = 8;
    ++exponent;
  }
  const int code = ((exponent + 7) << 3) | (steps - 8);
  return sign | u8(code > 0x7E ? 0x7E : code);
}

__device__ float decode_e4m3(u8 code) {
  const int exponent = (code >> 3) & 15, fraction = code & 7;
  float magnitude =
      exponent == 0 ? float(fraction) * power_of_two(-9) : float(8 + fraction) * power_of_two(exponent - 10);
  if ((code & 0x7F) == 0x7F) magnitude = __int_as_float(0x7FFFFFFF);
  return code & 0x80 ? -magnitude : magnitude;
}

__device__ int within(float value, int least, int most) { return min(most, max(least, __float2int_rn(value))); }

__device__ void store(u64 address, u64 type, u64 index, float value) {
  if (type == kF32) {
    reinterpret_cast<float*>(address)[index] = value;
  } else if (type == kF16) {
    u16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    reinterpret_cast<u16*>(address)[index] = half;
  } else if (type == kBf16) {
    u16 brain;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(brain) : "f"(value));
    reinterpret_cast<u16*>(address)[index] = brain;
  } else if (type == kE4m3) {
    reinterpret_cast<u8*>(address)[index] = encode_e4m3(value);
  } else if (type == kI32) {
    reinterpret_cast<int*>(address)[index] = __float2int_rn(value);
  } else if (type == kI64) {
    reinterpret_cast<i64*>(address)[index] = value == value ? __float2ll_rn(value) : 0;
  } else if (type == kU32) {
    reinterpret_cast<u32*>(address)[index] = value > 0 ? __float2uint_rn(value) : 0;
  } else if (type == kF64) {
    reinterpret_cast<double*>(address)[index] = value;
  } else if (type == kI16) {
    reinterpret_cast<short*>(address)[index] = short(within(value, -32768, 32767));
  } else if (type == kU16) {
    reinterpret_cast<u16*>(address)[index] = u16(within(value, 0, 65535));
  } else if (type == kI8) {
    reinterpret_cast<signed char*>(address)[index] = static_cast<signed char>(within(value, -128, 127));
  } else {
    reinterpret_cast<u8*>(address)[index] = u8(within(value, 0, 255));
  }
}

// Integers keep all their bits on the way to an integer type.
__device__ void store_integer(u64 address, u64 type, u64 index, i64 value) {
  if (type == kI32) {
    reinterpret_cast<int*>(address)[index] = int(value);
  } else if (type == kI64) {
    reinterpret_cast<i64*>(address)[index] = value;
  } else if (type == kU32) {
    reinterpret_cast<u32*>(address)[index] = u32(max(value, i64(0)));
  } else {
    store(address, type, index, float(value));
  }
}

// Apart, so that the loops over the common types keep their registers.
__device__ __noinline__ i64 load_narrow(u64 address, u64 type, u64 index) {
  if (type == kI8) return reinterpret_cast<const signed char*>(address)[index];
  if (type == kI16) return reinterpret_cast<const short*>(address)[index];
  if (type == kU16) return reinterpret_cast<const u16*>(address)[index];
  return reinterpret_cast<const u32*>(address)[index];
}

__device__ i64 load_integer(u64 address, u64 type, u64 index) {
  if (type == kI64) return reinterpret_cast<const i64*>(address)[index];
  if (type == kU8) return reinterpret_cast<const u8*>(address)[index];
  if (type > kU8) return load_narrow(address, type, index);
  return reinterpret_cast<const int*>(address)[index];
}

__device__ float load(u64 address, u64 type, u64 index) {
  if (type == kF32) return reinterpret_cast<const float*>(address)[index];
  if (type == kE4m3) return decode_e4m3(reinterpret_cast<const u8*>(address)[index]);
  if (type == kF64) return float(reinterpret_cast<const double*>(address)[index]);
  if (type >= kI32) return float(load_integer(address, type, index));
  const u16 bits = reinterpret_cast<const u16*>(address)[index];
  if (type == kBf16) return __uint_as_float(u32(bits) << 16);
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

// All bits but the sign: NaN in every floating-point type here, and the largest integer.
__device__ void store_poison(u64 address, u64 type, u64 index) {
  if (type == kF32 || type == kI32) {
    reinterpret_cast<u32*>(address)[index] = 0x7FFFFFFF;
  } else if (type == kU32) {
    reinterpret_cast<u32*>(address)[index] = 0xFFFFFFFF;
  } else if (type == kI64 || type == kF64) {
    reinterpret_cast<i64*>(address)[index] = 0x7FFFFFFFFFFFFFFF;
  } else if (type == kE4m3 || type == kU8 || type == kI8) {
    reinterpret_cast<u8*>(address)[index] = type == kU8 ? 0xFF : 0x7F;
  } else {
    reinterpret_cast<u16*>(address)[index] = type == kU16 ? 0xFFFF : 0x7FFF;
  }
}

}  // namespace
