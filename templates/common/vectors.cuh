// The bytes that a lane moves with one instruction.
#pragma once

#include "templates/common/types.cuh"

template <int kBytes>
struct PackedBytes;
template <>
struct PackedBytes<2> {
  using Type = u16;
};
template <>
struct PackedBytes<4> {
  using Type = u32;
};
template <>
struct PackedBytes<8> {
  using Type = uint2;
};
template <>
struct PackedBytes<16> {
  using Type = uint4;
};

// kBytes in registers, word by word or at once.
template <int kBytes>
union VectorOf {
  typename PackedBytes<kBytes>::Type packed;
  u32 words[kBytes / 4];
};

template <int kBytes>
__device__ __forceinline__ VectorOf<kBytes> zero_vector() {
  VectorOf<kBytes> vector;
#pragma unroll
  for (int w = 0; w < kBytes / 4; ++w) vector.words[w] = 0;
  return vector;
}

// The values of a vector of 16-bit elements, and the way back.
template <typename Element, int kCount>
__device__ __forceinline__ void unpack_vector(VectorOf<2 * kCount> vector, float (&values)[kCount]) {
#pragma unroll
  for (int w = 0; w < kCount / 2; ++w) Element::unpack(vector.words[w], values[2 * w], values[2 * w + 1]);
}

template <typename Element, int kCount>
__device__ __forceinline__ VectorOf<2 * kCount> pack_vector(const float (&values)[kCount]) {
  VectorOf<2 * kCount> vector;
#pragma unroll
  for (int w = 0; w < kCount / 2; ++w) vector.words[w] = Element::pack(values[2 * w], values[2 * w + 1]);
  return vector;
}

// `source` and `target` lie at multiples of kBytes.
template <int kBytes>
__device__ __forceinline__ VectorOf<kBytes> load_vector(const void* source) {
  VectorOf<kBytes> vector;
  vector.packed = *static_cast<const typename PackedBytes<kBytes>::Type*>(source);
  return vector;
}

// Read once: the first to leave the caches. The compiler may move this above a wait for the predecessor unless the
// address comes from what was read behind it.
template <int kBytes>
__device__ __forceinline__ VectorOf<kBytes> load_vector_once(const void* source) {
  VectorOf<kBytes> vector;
  vector.packed = __ldcs(static_cast<const typename PackedBytes<kBytes>::Type*>(source));
  return vector;
}

// kStream: written once and not read soon: the first to leave the caches.
template <bool kStream, int kBytes>
__device__ __forceinline__ void store_vector(void* target, VectorOf<kBytes> vector) {
  auto* const to = static_cast<typename PackedBytes<kBytes>::Type*>(target);
  if constexpr (kStream) {
    __stcs(to, vector.packed);
  } else {
    *to = vector.packed;
  }
}
