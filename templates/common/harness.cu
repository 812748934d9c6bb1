// The device side of measuring and validating: fill, poison, compare, guard bands, checksum, delay.
//
// Every parameter is 8 bytes wide. Codes: element types as DType in kernels/buffer.h (f32, f16, bf16, e4m3,
// i32), fills as Fill::Kind (zeros, normal, uniform, integers). tuner/worker/harness.cc is the host side.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

namespace {

enum Type { kF32, kF16, kBf16, kE4m3, kI32 };
enum Kind { kZeros, kNormal, kUniform };

constexpr u32 kBlock = 256;

__device__ u64 global_thread() { return u64(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ u64 global_threads() { return u64(gridDim.x) * blockDim.x; }

// --- values ---------------------------------------------------------------------------------------------

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

// generate_element of kernels/buffer.cc; `factor` is the scale times the constant of the kind.
__device__ float generate(u64 kind, float factor, u64 base, u64 index) {
  const u64 word = split_mix(base + index);
  if (kind == kNormal) {
    const int sum =
        int(word & 0xFFFF) + int((word >> 16) & 0xFFFF) + int((word >> 32) & 0xFFFF) + int(word >> 48);
    return multiply(float(sum - 2 * 65535), factor);
  }
  return multiply(float(2 * int(word >> 40) + 1 - (1 << 24)), factor);
}

__device__ float factor_of(u64 kind, float scale) {
  return multiply(scale, kind == kNormal ? 0x1.bb67aep-16f : 0x1p-24f);
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
  } else {
    reinterpret_cast<int*>(address)[index] = __float2int_rn(value);
  }
}

__device__ float load(u64 address, u64 type, u64 index) {
  if (type == kF32) return reinterpret_cast<const float*>(address)[index];
  if (type == kE4m3) return decode_e4m3(reinterpret_cast<const u8*>(address)[index]);
  if (type == kI32) return float(reinterpret_cast<const int*>(address)[index]);
  const u16 bits = reinterpret_cast<const u16*>(address)[index];
  if (type == kBf16) return __uint_as_float(u32(bits) << 16);
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

// All bits but the sign: NaN in every floating-point type here.
__device__ void store_nan(u64 address, u64 type, u64 index) {
  if (type == kF32 || type == kI32) {
    reinterpret_cast<u32*>(address)[index] = 0x7FFFFFFF;
  } else if (type == kE4m3) {
    reinterpret_cast<u8*>(address)[index] = 0x7F;
  } else {
    reinterpret_cast<u16*>(address)[index] = 0x7FFF;
  }
}

// --- comparing ------------------------------------------------------------------------------------------

struct Partial {
  double max_error, sum_xy, sum_xx, sum_yy;
  u64 worst_index;
  u64 mask_mismatches;
  u64 first_mismatch;
};

__device__ bool finite(float value) { return (__float_as_uint(value) & 0x7F800000) != 0x7F800000; }

// Both NaN, or the same infinity.
__device__ bool same_special(float x, float y) { return (x != x && y != y) || x == y; }

__device__ void add_element(Partial& partial, float x, float y, u64 index) {
  if (finite(x) && finite(y)) {
    const double error = fabs(double(x) - double(y));
    if (error > partial.max_error) {
      partial.max_error = error;
      partial.worst_index = index;
    }
    partial.sum_xy += double(x) * double(y);
    partial.sum_xx += double(x) * double(x);
    partial.sum_yy += double(y) * double(y);
  } else if (!same_special(x, y)) {
    if (partial.mask_mismatches++ == 0) partial.first_mismatch = index;
  }
}

// Equal errors count at the lowest index, so that the answer does not depend on who saw it.
__device__ void merge(Partial& into, const Partial& other) {
  if (other.max_error > into.max_error ||
      (other.max_error == into.max_error && other.worst_index < into.worst_index)) {
    into.max_error = other.max_error;
    into.worst_index = other.worst_index;
  }
  into.sum_xy += other.sum_xy;
  into.sum_xx += other.sum_xx;
  into.sum_yy += other.sum_yy;
  into.mask_mismatches += other.mask_mismatches;
  if (other.first_mismatch < into.first_mismatch) into.first_mismatch = other.first_mismatch;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kBlock)
    moetune_fill(u64 address, u64 type, u64 kind, double scale, u64 seed, u64 stream, u64 elements) {
  const u64 base = split_mix(split_mix(seed) + stream);
  const float factor = factor_of(kind, float(scale));
  for (u64 i = global_thread(); i < elements; i += global_threads()) {
    store(address, type, i, kind == kZeros ? 0.0f : generate(kind, factor, base, i));
  }
}

// `ranges` holds (begin, count) pairs in elements; a block takes one range at a time.
extern "C" __global__ void __launch_bounds__(kBlock)
    moetune_poison(u64 address, u64 type, const i64* ranges, u64 count) {
  for (u64 r = blockIdx.x; r < count; r += gridDim.x) {
    for (i64 i = threadIdx.x; i < ranges[2 * r + 1]; i += kBlock)
      store_nan(address, type, u64(ranges[2 * r] + i));
  }
}

// One Partial a block, summed in a fixed order; the host merges the blocks in order.
extern "C" __global__ void __launch_bounds__(kBlock)
    moetune_compare(u64 x, u64 type, const float* y, u64 elements, Partial* partials) {
  __shared__ Partial shared[kBlock];
  Partial mine = {0, 0, 0, 0, ~0ull, 0, ~0ull};
  for (u64 i = global_thread(); i < elements; i += global_threads())
    add_element(mine, load(x, type, i), y[i], i);
  shared[threadIdx.x] = mine;
  for (u32 half = kBlock / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) merge(shared[threadIdx.x], shared[threadIdx.x + half]);
  }
  if (threadIdx.x == 0) partials[blockIdx.x] = shared[0];
}

// The bytes between copies must all be `pattern`. Copy c's data is `bytes` long and starts at guard + c *
// stride; the band after it reaches to the next copy's start. The lowest offset that was written lands in
// `first_bad`.
extern "C" __global__ void __launch_bounds__(kBlock)
    moetune_check_guards(const u8* arena, u64 guard, u64 stride, u64 bytes, u64 copies, u64 pattern,
                         u64* first_bad) {
  const u32 word = u32(pattern) * 0x01010101u;
  for (u64 band = blockIdx.x; band <= copies; band += gridDim.x) {
    const u64 begin = band == 0 ? 0 : guard + (band - 1) * stride + bytes;
    const u64 end = band == 0 ? guard : guard + band * stride;
    const u64 aligned = (begin + 15) / 16 * 16;
    for (u64 i = begin + threadIdx.x; i < aligned; i += kBlock) {
      if (arena[i] != u8(pattern)) atomicMin(first_bad, i);
    }
    for (u64 i = aligned + 16 * threadIdx.x; i < end; i += 16 * kBlock) {
      const uint4 v = *reinterpret_cast<const uint4*>(arena + i);
      if (v.x == word && v.y == word && v.z == word && v.w == word) continue;
      for (u64 b = i; b < i + 16; ++b) {
        if (arena[b] != u8(pattern)) {
          atomicMin(first_bad, b);
          break;
        }
      }
    }
  }
}

// Sum of word * (2 * index + 1): any single change shows, and the order of adding does not matter. `words`
// are 16 bytes.
extern "C" __global__ void __launch_bounds__(kBlock)
    moetune_checksum(const ulonglong2* data, u64 words, u64* sum) {
  u64 mine = 0;
#pragma unroll 4
  for (u64 i = global_thread(); i < words; i += global_threads()) {
    const ulonglong2 v = data[i];
    mine += v.x * (4 * i + 1) + v.y * (4 * i + 3);
  }
  for (int lane = 16; lane > 0; lane /= 2) mine += __shfl_xor_sync(0xFFFFFFFFu, mine, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

// Keeps the stream busy while the host enqueues what is to be timed back to back.
extern "C" __global__ void moetune_delay(u64 cycles) {
  const i64 begin = clock64();
  while (u64(clock64() - begin) < cycles) {
  }
}
