// The device side of measuring and validating: fill, poison, compare, guard bands, checksum. Hold
// and canary are in timing.cuh.
//
// Every parameter is 8 bytes wide. Codes: element types as DType in kernels/dtype.h, fills as Fill::Kind in
// kernels/buffer.h. tuner/worker/harness.cc is the host side.

#include "templates/common/harness_values.cuh"
#include "templates/common/timing.cuh"

namespace {

struct Partial {
  double max_error, largest, sum_xy, sum_xx, sum_yy;
  u64 worst_index;
  u64 mask_mismatches;
  u64 first_mismatch;
};

__device__ bool finite(float value) { return (__float_as_uint(value) & 0x7F800000) != 0x7F800000; }

__device__ bool finite(double value) { return value - value == 0; }

// Both NaN, or the same infinity.
template <typename T>
__device__ bool same_special(T x, T y) {
  return (x != x && y != y) || x == y;
}

template <typename T>
__device__ void add_element(Partial& partial, T x, T y, u64 index) {
  if (finite(x) && finite(y)) {
    const double error = fabs(double(x) - double(y));
    if (error > partial.max_error) {
      partial.max_error = error;
      partial.worst_index = index;
    }
    partial.largest = fmax(partial.largest, fabs(double(y)));
    partial.sum_xy += double(x) * double(y);
    partial.sum_xx += double(x) * double(x);
    partial.sum_yy += double(y) * double(y);
  } else if (!same_special(x, y)) {
    if (partial.mask_mismatches++ == 0) partial.first_mismatch = index;
  }
}

// Equal errors count at the lowest index, so that the answer does not depend on who saw it.
__device__ void merge(Partial& into, const Partial& other) {
  if (other.max_error > into.max_error || (other.max_error == into.max_error && other.worst_index < into.worst_index)) {
    into.max_error = other.max_error;
    into.worst_index = other.worst_index;
  }
  into.largest = fmax(into.largest, other.largest);
  into.sum_xy += other.sum_xy;
  into.sum_xx += other.sum_xx;
  into.sum_yy += other.sum_yy;
  into.mask_mismatches += other.mask_mismatches;
  if (other.first_mismatch < into.first_mismatch) into.first_mismatch = other.first_mismatch;
}

// Integers of one tensor against those of another. In a comparison of sets `mismatches` and `first` count
// segments.
struct IntegerPartial {
  u64 mismatches, first;
  i64 actual, expected;  // at `first`
  u64 unwritten, first_unwritten;
};

__device__ void merge(IntegerPartial& into, const IntegerPartial& other) {
  if (other.first < into.first) {
    into.first = other.first;
    into.actual = other.actual;
    into.expected = other.expected;
  }
  if (other.first_unwritten < into.first_unwritten) into.first_unwritten = other.first_unwritten;
  into.mismatches += other.mismatches;
  into.unwritten += other.unwritten;
}

// What load_integer gives of memory that holds `byte` everywhere.
__device__ i64 repeated(u64 type, u64 byte) {
  const u64 word = byte * 0x0101010101010101ull;
  return type == kI64   ? i64(word)
         : type == kI32 ? i64(int(word))
         : type == kU32 ? i64(u32(word))
         : type == kI16 ? i64(short(word))
         : type == kU16 ? i64(u16(word))
         : type == kI8  ? i64(static_cast<signed char>(byte))
                        : i64(byte);
}

// A second hash beside split_mix: the finalizer of MurmurHash3.
__device__ u64 other_mix(u64 z) {
  z += 0x5851F42D4C957F2Dull;
  z = (z ^ (z >> 33)) * 0xFF51AFD7ED558CCDull;
  z = (z ^ (z >> 33)) * 0xC4CEB9FE1A85EC53ull;
  return z ^ (z >> 33);
}

// Merges a block's partials and lets its first thread write the sum.
template <typename P>
__device__ void reduce_block(const P& mine, P* partials) {
  __shared__ P shared[kBlock];
  shared[threadIdx.x] = mine;
  for (u32 half = kBlock / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) merge(shared[threadIdx.x], shared[threadIdx.x + half]);
  }
  if (threadIdx.x == 0) partials[blockIdx.x] = shared[0];
}

__device__ u64 sum_over_warp(u64 value) {
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, lane);
  return value;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kBlock)
    moetune_fill(u64 address, u64 type, u64 kind, double scale, u64 seed, u64 stream, u64 elements) {
  const u64 base = split_mix(split_mix(seed) + stream);
  const float factor = factor_of(kind, float(scale));
  for (u64 i = global_thread(); i < elements; i += global_threads()) {
    if (kind == kPermutation) {
      store_integer(address, type, i, i64(permute(elements, base, i)));
    } else {
      const float fixed = kind == kConstant ? float(scale) : 0.0f;
      const bool drawn = kind == kNormal || kind == kUniform || kind == kSteps;
      store(address, type, i, drawn ? generate(kind, factor, base, i) : fixed);
    }
  }
}

// zipf_element of kernels/buffer.cc.
extern "C" __global__ void __launch_bounds__(kBlock)
    moetune_fill_zipf(u64 address, u64 type, const u64* thresholds, u64 values, u64 seed, u64 stream, u64 elements) {
  const u64 base = split_mix(split_mix(seed) + stream);
  for (u64 i = global_thread(); i < elements; i += global_threads()) {
    const u64 word = split_mix(base + i);
    u64 low = 0, high = values - 1;
    while (low < high) {
      const u64 middle = (low + high) / 2;
      if (word < thresholds[middle]) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    store_integer(address, type, i, i64(low));
  }
}

extern "C" __global__ void __launch_bounds__(kBlock)
    moetune_fill_list(u64 address, u64 type, const int* list, u64 elements) {
  for (u64 i = global_thread(); i < elements; i += global_threads()) store_integer(address, type, i, list[i]);
}

extern "C" __global__ void __launch_bounds__(kBlock)
    moetune_shift_columns(u64 address, u64 type, const float* shifts, u64 columns, u64 elements) {
  for (u64 i = global_thread(); i < elements; i += global_threads())
    store(address, type, i, __fadd_rn(load(address, type, i), shifts[i % columns]));
}

extern "C" __global__ void __launch_bounds__(kBlock) moetune_widen(u64 from, u64 type, float* to, u64 elements) {
  for (u64 i = global_thread(); i < elements; i += global_threads()) to[i] = load(from, type, i);
}

// `ranges` holds (begin, count) pairs in elements; a block takes one range at a time.
extern "C" __global__ void __launch_bounds__(kBlock)
    moetune_poison(u64 address, u64 type, const i64* ranges, u64 count) {
  for (u64 r = blockIdx.x; r < count; r += gridDim.x) {
    for (i64 i = threadIdx.x; i < ranges[2 * r + 1]; i += kBlock) store_poison(address, type, u64(ranges[2 * r] + i));
  }
}

// One Partial a block, summed in a fixed order; the host merges the blocks in order. y is of doubles if x is, else of
// floats.
extern "C" __global__ void __launch_bounds__(kBlock)
    moetune_compare(u64 x, u64 type, u64 y, u64 elements, Partial* partials) {
  Partial mine = {0, 0, 0, 0, 0, ~0ull, 0, ~0ull};
  if (type == kF64) {
    for (u64 i = global_thread(); i < elements; i += global_threads())
      add_element(mine, reinterpret_cast<const double*>(x)[i], reinterpret_cast<const double*>(y)[i], i);
  } else {
    for (u64 i = global_thread(); i < elements; i += global_threads())
      add_element(mine, load(x, type, i), reinterpret_cast<const float*>(y)[i], i);
  }
  reduce_block(mine, partials);
}

// x against y, of one type. `earlier`, if not 0, is x as another run left it that began with `earlier_byte`
// everywhere, as this one did with `byte`: an element that is still so in both was never written.
extern "C" __global__ void __launch_bounds__(kBlock)
    moetune_compare_integers(u64 x, u64 y, u64 type, u64 elements, u64 earlier, u64 earlier_byte, u64 byte,
                             IntegerPartial* partials) {
  const i64 poison = repeated(type, byte), earlier_poison = repeated(type, earlier_byte);
  IntegerPartial mine = {0, ~0ull, 0, 0, 0, ~0ull};
  for (u64 i = global_thread(); i < elements; i += global_threads()) {
    const i64 actual = load_integer(x, type, i), expected = load_integer(y, type, i);
    if (actual != expected && mine.mismatches++ == 0) {
      mine.first = i;
      mine.actual = actual;
      mine.expected = expected;
    }
    if (earlier != 0 && actual == poison && load_integer(earlier, type, i) == earlier_poison) {
      if (mine.unwritten++ == 0) mine.first_unwritten = i;
    }
  }
  reduce_block(mine, partials);
}

// Segment s lies between offsets[s - 1] (or 0) and offsets[s] (or `elements`); without offsets it is `length`
// elements from s * length. A block takes a segment and compares the sums, modulo 2^64, of two hashes of its
// elements: equal multisets have equal sums, and two that differ have equal ones by chance once in 2^128.
extern "C" __global__ void __launch_bounds__(kBlock)
    moetune_compare_segments(u64 x, u64 y, u64 type, u64 elements, const int* offsets, u64 length, u64 segments,
                             IntegerPartial* partials) {
  __shared__ u64 sums[2];
  IntegerPartial mine = {0, ~0ull, 0, 0, 0, ~0ull};
  for (u64 s = blockIdx.x; s < segments; s += gridDim.x) {
    u64 begin = s * length, end = begin + length;
    if (offsets != nullptr) {
      begin = s == 0 ? 0 : u64(offsets[s - 1]);
      end = s + 1 == segments ? elements : u64(offsets[s]);
    }
    if (threadIdx.x < 2) sums[threadIdx.x] = 0;
    __syncthreads();
    u64 first = 0, second = 0;
    for (u64 i = begin + threadIdx.x; i < min(end, elements); i += kBlock) {
      const u64 actual = u64(load_integer(x, type, i)), expected = u64(load_integer(y, type, i));
      first += split_mix(actual) - split_mix(expected);
      second += other_mix(actual) - other_mix(expected);
    }
    first = sum_over_warp(first);
    second = sum_over_warp(second);
    if (threadIdx.x % 32 == 0) {
      atomicAdd(&sums[0], first);
      atomicAdd(&sums[1], second);
    }
    __syncthreads();
    if (threadIdx.x == 0 && (sums[0] | sums[1]) != 0 && mine.mismatches++ == 0) mine.first = s;
    __syncthreads();
  }
  if (threadIdx.x == 0) partials[blockIdx.x] = mine;
}

// The bytes between copies must all be `pattern`. Copy c's data is `bytes` long and starts at guard + c *
// stride; the band after it reaches to the next copy's start. The lowest offset that was written lands in
// `first_bad`.
extern "C" __global__ void __launch_bounds__(kBlock)
    moetune_check_guards(const u8* arena, u64 guard, u64 stride, u64 bytes, u64 copies, u64 pattern, u64* first_bad) {
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
extern "C" __global__ void __launch_bounds__(kBlock) moetune_checksum(const ulonglong2* data, u64 words, u64* sum) {
  u64 mine = 0;
#pragma unroll 4
  for (u64 i = global_thread(); i < words; i += global_threads()) {
    const ulonglong2 v = data[i];
    mine += v.x * (4 * i + 1) + v.y * (4 * i + 3);
  }
  mine = sum_over_warp(mine);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}
