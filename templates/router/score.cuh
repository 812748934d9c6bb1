// Scores and weights: one definition for the router and its reference, so that both round alike and choose the
// same experts. Products and sums that could become a fused multiply-add are written as intrinsics.
#pragma once

#include "templates/common/reciprocal.cuh"
#include "templates/common/reduce.cuh"
#include "templates/router/shape.cuh"

constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;
constexpr float kLargest = 3.40282347e38f;

// NaN counts as -infinity, +infinity as the largest number.
__device__ __forceinline__ float clean(float logit) {
  return fminf(fmaxf(logit, minus_infinity()), kLargest);  // of NaN and a number both give the number
}

// What a softmax subtracts from every logit: their maximum, or 0 if all are -infinity.
__device__ __forceinline__ float softmax_shift(float maximum) { return maximum < -kLargest ? 0.0f : maximum; }

__device__ __forceinline__ float exponential(float logit, float shift) {
  return exp2_fast(__fmul_rn(logit - shift, kLog2E));
}

// What a row's scores have in common.
struct RowSoftmax {
  float shift = 0, inverse_sum = 1;
};

__device__ __forceinline__ float score_of(float logit, const RowSoftmax& row) {
  if constexpr (kScore == Score::sigmoid) {
    return reciprocal_fast(1.0f + exp2_fast(__fmul_rn(-logit, kLog2E)));
  } else if constexpr (kScore == Score::sqrt_softplus) {
    // softplus(x) = max(x, 0) + log(1 + e^-|x|)
    const float tail = log2_fast(1.0f + exp2_fast(__fmul_rn(-fabsf(logit), kLog2E)));
    return sqrtf(__fadd_rn(fmaxf(logit, 0.0f), __fmul_rn(tail, kLn2)));
  } else if constexpr (kScore == Score::softmax && kNeedsSum) {
    return __fmul_rn(exponential(logit, row.shift), row.inverse_sum);
  } else {
    return exponential(logit, row.shift);  // over the selected: divided by their sum later
  }
}

// What experts are selected by; `bias` is the expert's.
__device__ __forceinline__ float selection_score(float logit, const RowSoftmax& row, float bias) {
  const float score = kByLogit ? logit : score_of(logit, row);
  return kBias ? __fadd_rn(score, bias) : score;
}

// The weight of a selected expert. `sum` is that of the selected experts' scores, in the order of their slots.
__device__ __forceinline__ float weight_of(float score, float sum, float scale) {
  float weight = score;
  if constexpr (kOverSelected || kRenormalize) weight = sum > 0.0f ? score / sum : 0.0f;
  return __fmul_rn(weight, scale);
}

// The partial sums of a row's exponentials: expert e adds to partial e % kPartials, in ascending order, and the
// partials are added as a binary tree, neighbours at half the distance each time. Every way to spread a row over
// lanes can keep to this order.
constexpr int kPartials = 128;
