// The bound of logits that Gemma 2 and Grok have: scores become cap * tanh(score / cap).
#pragma once

#include "templates/common/reciprocal.cuh"
#include "templates/common/reduce.cuh"

// Macros: SOFTCAP, where there is a cap; other cubins are compiled as before there was any.
#ifdef SOFTCAP
constexpr int kSoftcap = SOFTCAP;
#else
constexpr int kSoftcap = 0;
#endif

// tanh of x ln(2) / 2, of infinity 1; the error is a few units in the last place of 1. tanh.approx is off by 2^-11,
// which a cap of 50 makes a fortieth of a logit.
__device__ __forceinline__ float tanh_half_log2(float x) { return 1 - 2 * reciprocal_fast(exp2_fast(x) + 1); }
