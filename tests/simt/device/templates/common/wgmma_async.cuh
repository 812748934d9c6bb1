// Stands in for templates/common/wgmma_async.cuh on the CPU.
#pragma once

#include "templates/common/wgmma.cuh"

__device__ __forceinline__ void wgmma_commit() { simt::runtime->multiply_commit(); }

template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  simt::runtime->multiply_wait(kPending);
}

template <typename Element, int kColumns>
__device__ __forceinline__ void wgmma_rows(float (*sum)[4], u64 a, u64 b, bool add) {
  static_assert(kColumns >= 64 && kColumns <= 256 && kColumns % 16 == 0);
  const simt::Multiply one = {simt::kElementLetter<Element>, add, false, false, kColumns, sum[0], nullptr, a, b};
  simt::runtime->multiply(&one);
}

template <typename Element, int kColumns>
__device__ __forceinline__ void wgmma_columns(float (*sum)[4], const u32 (&a)[4], u64 b) {
  static_assert(kColumns >= 64 && kColumns <= 256 && kColumns % 16 == 0);
  const simt::Multiply one = {simt::kElementLetter<Element>, true, false, !kIsE4m3<Element>, kColumns, sum[0], a, 0, b};
  simt::runtime->multiply(&one);
}
