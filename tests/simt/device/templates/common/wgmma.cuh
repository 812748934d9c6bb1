// Stands in for templates/common/wgmma.cuh on the CPU: the same descriptors, decoded by the emulator, which multiplies.
#pragma once

#include "templates/common/types.cuh"

#define wgmma_forget ptx_wgmma_forget
#define wgmma_begin ptx_wgmma_begin
#define wgmma_commit ptx_wgmma_commit
#define wgmma_wait ptx_wgmma_wait
#define wgmma_finish ptx_wgmma_finish
#define wgmma_hold ptx_wgmma_hold
#define wgmma ptx_wgmma
#define wgmma_registers ptx_wgmma_registers
#include_next "templates/common/wgmma.cuh"
#undef wgmma_forget
#undef wgmma_begin
#undef wgmma_commit
#undef wgmma_wait
#undef wgmma_finish
#undef wgmma_hold
#undef wgmma
#undef wgmma_registers

namespace simt {

template <typename Operand>
constexpr char kElementLetter = kIsSame<Operand, E4m3>   ? 'e'
                                : kIsSame<Operand, Bf16> ? 'b'
                                                         : 'h';

}  // namespace simt

__device__ __forceinline__ u32 wgmma_forget(u32 address) { return address; }

__device__ __forceinline__ void wgmma_begin() { simt::runtime->multiply_begin(); }

__device__ __forceinline__ void wgmma_commit() { simt::runtime->multiply_commit(); }

template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  simt::runtime->multiply_wait(kPending);
}

__device__ __forceinline__ void wgmma_finish() {
  wgmma_commit();
  wgmma_wait<0>();
}

template <int kCount>
__device__ __forceinline__ void wgmma_hold(float (*sum)[4]) {}

template <typename Operand, int kColumns, bool kTransposedA, bool kTransposedB>
__device__ __forceinline__ void wgmma(float (*sum)[4], u64 a, u64 b, bool add) {
  static_assert(kColumns >= 8 && kColumns <= 256 && (kColumns == 8 || kColumns % 16 == 0));
  static_assert(!kIsSame<Operand, E4m3> || (!kTransposedA && !kTransposedB));
  const simt::Multiply one = {
      simt::kElementLetter<Operand>, add, kTransposedA, kTransposedB, kColumns, sum[0], nullptr, a, b};
  simt::runtime->multiply(&one);
}

template <typename Operand, int kColumns, bool kTransposedB>
__device__ __forceinline__ void wgmma_registers(float (*sum)[4], const u32 (&a)[4], u64 b) {
  static_assert(kColumns >= 8 && kColumns <= 256 && (kColumns == 8 || kColumns % 16 == 0));
  const simt::Multiply one = {simt::kElementLetter<Operand>, true, false, kTransposedB, kColumns, sum[0], a, 0, b};
  simt::runtime->multiply(&one);
}
