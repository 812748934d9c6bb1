// The block's dynamic shared memory: as many bytes as the launch asks for.
//
// Templates that reach it through dynamic_shared() alone also run on the CPU (tests/simt), where every block
// has a buffer of its own and what lies past its end is out of bounds.
#pragma once

#include "templates/common/types.cuh"

// Its first byte, aligned to 1024, as wgmma wants the rows of a 128-byte swizzle. A kernel lays out what it holds there
// itself.
__device__ __forceinline__ u8* dynamic_shared() {
  extern __shared__ __align__(1024) u8 moetune_dynamic_shared[];
  return moetune_dynamic_shared;
}
