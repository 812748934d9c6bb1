// A token's row of logits, spread over kLanes neighbouring lanes of a warp, and what all its scores share.
//
// Macros: those of shape.cuh; LANES (that share a row), VECTOR (logits that a lane loads at once).
#pragma once

#include "templates/common/vectors.cuh"
#include "templates/router/score.cuh"

constexpr int kLanes = LANES, kVector = VECTOR;
constexpr int kStep = kLanes * kVector;  // experts that the lanes load at once
constexpr int kSteps = ceil_div(kExperts, kStep);
constexpr int kHeld = kSteps * kVector;  // experts of a lane
static_assert(kExperts % kVector == 0 && kStep <= kPartials, "the space keeps to both");

struct Lane {
  int lane = int(threadIdx.x) % kLanes;

  // The expert of a lane's i-th value; kExperts and more for none.
  __device__ __forceinline__ int expert(int i) const {
    return i / kVector * kStep + lane * kVector + i % kVector;
  }
};

__device__ __forceinline__ void load_row(float (&logits)[kHeld], const Logit* row, Lane lane) {
  union {
    typename PackedBytes<kVector* int(sizeof(Logit))>::Type packed;
    Logit elements[kVector];
  } loaded;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int first = lane.expert(step * kVector);
    const bool present = first < kExperts;
    if (present) loaded.packed = *reinterpret_cast<const decltype(loaded.packed)*>(row + first);
#pragma unroll
    for (int v = 0; v < kVector; ++v)
      logits[step * kVector + v] = present ? clean(Logit::to_float(loaded.elements[v])) : minus_infinity();
  }
}

// The biases of a lane's experts.
__device__ __forceinline__ void load_bias(float (&held)[kHeld], const float* bias, Lane lane) {
#pragma unroll
  for (int i = 0; i < kHeld; ++i) held[i] = kBias && lane.expert(i) < kExperts ? bias[lane.expert(i)] : 0.0f;
}

// The sum of all exponentials in the order of score.cuh: a lane holds kPartials / kLanes partials. First those
// that differ by whole steps of the lanes, then lanes, then values of one vector.
__device__ __forceinline__ float sum_of_exponentials(const float (&logits)[kHeld], float shift, Lane lane) {
  constexpr int kRounds = kPartials / kStep;  // steps until partials repeat
  float partials[kRounds * kVector];
#pragma unroll
  for (int i = 0; i < kRounds * kVector; ++i) partials[i] = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int p = i / kVector % kRounds * kVector + i % kVector;
    if (lane.expert(i) < kExperts) partials[p] = __fadd_rn(partials[p], exponential(logits[i], shift));
  }
#pragma unroll
  for (int half = kRounds / 2; half > 0; half /= 2) {
#pragma unroll
    for (int i = 0; i < half * kVector; ++i)
      partials[i] = __fadd_rn(partials[i], partials[i + half * kVector]);
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int v = 0; v < kVector; ++v)
      partials[v] = __fadd_rn(partials[v], __shfl_xor_sync(kWholeWarp, partials[v], distance));
  }
#pragma unroll
  for (int half = kVector / 2; half > 0; half /= 2) {
#pragma unroll
    for (int v = 0; v < half; ++v) partials[v] = __fadd_rn(partials[v], partials[v + half]);
  }
  return partials[0];
}

__device__ __forceinline__ RowSoftmax softmax_of(const float (&logits)[kHeld], Lane lane) {
  float maximum = minus_infinity();
#pragma unroll
  for (int i = 0; i < kHeld; ++i) maximum = fmaxf(maximum, logits[i]);
  RowSoftmax row;
  row.shift = softmax_shift(max_across<kLanes>(maximum));
  if constexpr (kNeedsSum) {
    const float sum = sum_of_exponentials(logits, row.shift, lane);
    row.inverse_sum = sum > 0.0f ? 1.0f / sum : 0.0f;
  }
  return row;
}
