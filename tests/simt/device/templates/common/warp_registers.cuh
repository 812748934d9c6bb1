// Stands in for templates/common/warp_registers.cuh on the CPU, where registers are no bound.
#pragma once

template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
}

template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
}
