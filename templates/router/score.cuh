// Scores and weights: one definition for the router and its reference, so that both round alike and choose the
// same experts. Products and sums that could become a fused multiply-add are written as intrinsics.
#pragma once

#include "templates/common/reciprocal.cuh"
#include "templates/common/reduce.cuh"
#include "templates/router/shape.cuh"

constexpr float kLargest = 3.40282347e38f;

// NaN counts as -infinity, +infinity as the largest number.
__device__ __forceinline__ float clean(float logit) {
  return fminf(fmaxf(logit, minus_infinity()), kLargest);  // of NaN and a number both give the number
}

// A logit as scores take it. The sigmoid makes the same of an odd logit as of a clean one.
__device__ __forceinline__ float read_logit(Logit logit) {
  const float value = Logit::to_float(logit);
  return kScore == Score::sigmoid ? value : clean(value);
}

// NaN counts as -infinity, and -0 as +0 if a logit is added, which may be -0 too.
__device__ __forceinline__ float clean_bias(float bias) {
  return fmaxf(kByLogit ? __fadd_rn(bias, 0.0f) : bias, minus_infinity());
}

// A softmax subtracts this from every logit: their maximum, or 0 if all are -infinity.
__device__ __forceinline__ float softmax_shift(float maximum) { return maximum < -kLargest ? 0.0f : maximum; }

__device__ __forceinline__ float exponential(float logit, float shift) {
  return exp2_fast(__fmul_rn(logit - shift, kLog2E));
}

// Values that all scores of a row share.
struct RowSoftmax {
  float shift = 0, inverse_sum = 1;
};

__device__ __forceinline__ float score_of(float logit, const RowSoftmax& row) {
  if constexpr (kScore == Score::sigmoid) {
    return __saturatef(reciprocal_fast(1.0f + exp2_fast(__fmul_rn(-logit, kLog2E))));  // 0 for NaN
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

// A score, or a logit if experts are selected by them, with the expert's clean bias. Never NaN: a score is finite.
// Never -0 either, whose order would be behind that of +0: other scores than logits begin at +0, and logits get +0
// added.
__device__ __forceinline__ float biased(float score, float bias) {
  if constexpr (!kBias && !kByLogit) return score;
  const float sum = __fadd_rn(score, kBias ? bias : 0.0f);
  return kBias && kByLogit ? fmaxf(sum, minus_infinity()) : sum;
}

// The value that experts are selected by; `bias` is the expert's.
__device__ __forceinline__ float selection_score(float logit, const RowSoftmax& row, float bias) {
  return biased(kByLogit ? logit : score_of(logit, row), bias);
}

// The sum of the selected experts' scores is a binary tree over so many slots, those past the last with 0:
// neighbours first, twice as far away each time.
constexpr int kSlotsOfSum = kTopKPower;

// The weight of a selected expert. `sum` is that of the selected experts' scores.
__device__ __forceinline__ float weight_of(float score, float sum, float scale) {
  if constexpr (!kOverSelected && !kRenormalize) return __fmul_rn(score, scale);
  // The share of a score in a softmax over all may be a subnormal number, which the reciprocal takes for 0.
  const float lift = kNeedsSum && sum < 0x1p-64f ? 0x1p64f : 1.0f;
  const float inverse = sum > 0.0f ? reciprocal_fast(kNeedsSum ? __fmul_rn(sum, lift) : sum) : 0.0f;
  return __fmul_rn(__fmul_rn(kNeedsSum ? __fmul_rn(score, lift) : score, inverse), scale);
}

// The partial sums of a row's exponentials: expert e adds to partial e % kPartials, in ascending order, and the
// partials are added as a binary tree, neighbours at half the distance each time. Every way to spread a row over
// lanes can keep to this order.
constexpr int kPartials = 128;
