// Stands in for templates/common/mma.cuh on the CPU: what each lane holds of a matrix is exchanged with the others.
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/types.cuh"

namespace simt {

// Two elements of 16 bits: the lanes' i-th register holds, of matrix i, those that `element` gives by row and column.
inline void load_matrices(u32 (&fragment)[4], u32 address, bool transposed) {
  if (address % 16 != 0) runtime->fail("ldmatrix: a row is not aligned to 16 bytes");
  Snapshot rows = *runtime->exchange("ldmatrix", kWholeWarp, address);
  const unsigned lane = current->lane;
  for (unsigned i = 0; i < 4; ++i) {
    u16 pair[2];
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned row = transposed ? lane % 4 * 2 + half : lane / 4;
      const unsigned column = transposed ? lane / 4 : lane % 4 * 2 + half;
      const auto* const from = static_cast<const u16*>(from_shared(static_cast<u32>(rows.values[8 * i + row])));
      pair[half] = from[column];
    }
    fragment[i] = pair[0] | u32{pair[1]} << 16;
  }
}

template <typename Element>
void multiply_add(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  const auto exchanged = [](u32 low, u32 high) {
    return *runtime->exchange("mma", kWholeWarp, low | static_cast<unsigned long long>(high) << 32);
  };
  const Snapshot top = exchanged(a[0], a[1]), next = exchanged(a[2], a[3]), columns = exchanged(b0, b1);
  // Element k of a row or column, which its four lanes hold in pairs: k < 8 in one register, the others in another.
  const auto element = [](const Snapshot& low, const Snapshot& high, unsigned place, bool upper, unsigned k) {
    const unsigned long long word = (k < 8 ? low : high).values[place * 4 + k % 8 / 2] >> (upper ? 32 : 0);
    return Element::to_float({static_cast<u16>(word >> (k % 2 * 16))});
  };
  const unsigned lane = current->lane;
  for (unsigned i = 0; i < 4; ++i) {
    double total = sum[i];
    for (unsigned k = 0; k < 16; ++k) {
      const float mine = element(top, next, lane / 4, i >= 2, k);
      const unsigned long long word = columns.values[(lane % 4 * 2 + i % 2) * 4 + k % 8 / 2] >> (k < 8 ? 0 : 32);
      total += double{mine} * Element::to_float({static_cast<u16>(word >> (k % 2 * 16))});
    }
    sum[i] = static_cast<float>(total);
  }
}

}  // namespace simt

__device__ __forceinline__ void ldmatrix(u32 (&fragment)[4], u32 address) {
  simt::load_matrices(fragment, address, false);
}

__device__ __forceinline__ void ldmatrix_transposed(u32 (&fragment)[4], u32 address) {
  simt::load_matrices(fragment, address, true);
}

__device__ __forceinline__ void stmatrix(u32 address, const u32 (&fragment)[4]) {
  if (address % 16 != 0) simt::runtime->fail("stmatrix: a row is not aligned to 16 bytes");
  const simt::Snapshot rows = *simt::runtime->exchange("stmatrix", kWholeWarp, address);
  const unsigned lane = simt::current->lane;
  for (unsigned i = 0; i < 4; ++i)
    static_cast<u32*>(simt::from_shared(static_cast<u32>(rows.values[8 * i + lane / 4])))[lane % 4] = fragment[i];
}

template <typename Element>
__device__ __forceinline__ void mma_16816(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1);

template <>
__device__ __forceinline__ void mma_16816<Bf16>(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  simt::multiply_add<Bf16>(sum, a, b0, b1);
}

template <>
__device__ __forceinline__ void mma_16816<Fp16>(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  simt::multiply_add<Fp16>(sum, a, b0, b1);
}

__device__ __forceinline__ u32 transposed_8x8(u32 fragment) {
  const simt::Snapshot all = *simt::runtime->exchange("movmatrix", kWholeWarp, fragment);
  const unsigned lane = simt::current->lane;
  u32 result = 0;
  for (unsigned half = 0; half < 2; ++half) {
    const unsigned row = lane % 4 * 2 + half, column = lane / 4;
    const u32 word = static_cast<u32>(all.values[row * 4 + column / 2]);
    result |= (word >> (column % 2 * 16) & 0xffffu) << (16 * half);
  }
  return result;
}
