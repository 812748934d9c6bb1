// What moe_combine and its reference agree on.
//
// Macros: HIDDEN, TOP_K.
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/types.cuh"

constexpr int kHidden = HIDDEN, kTopK = TOP_K;

// A row's share of a token: one rounding each, in the order of the slots, so that every way to spread the columns over
// threads gives the same sums.
__device__ __forceinline__ float add_share(float weight, float value, float sum) {
  return __fmaf_rn(weight, value, sum);
}
