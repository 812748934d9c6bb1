// A waiter's place in a ring of stages with mbarriers.
#pragma once

#include "templates/common/types.cuh"

// Stage index and phase parity in a ring of kCount stages.
template <int kCount>
struct RingPlace {
  int index = 0;
  u32 parity = 0;

  __device__ __forceinline__ void advance() {
    if (++index < kCount) return;
    index = 0;
    parity ^= 1;
  }
};
