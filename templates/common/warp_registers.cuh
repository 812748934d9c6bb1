// Registers a warpgroup may use, moved between the roles of a block (sm_90a).
#pragma once

// Every warp of a warpgroup calls the same one, once. kRegisters: a multiple of 8 from 24 to 256.
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
