// A token's row of logits, spread over kLanes neighbouring lanes of a warp, and what all its scores share.
//
// Macros: those of shape.cuh and schedule.cuh; LANES (that share a row), VECTOR (logits that a lane loads at once),
// SELECT (a Select).
#pragma once

#include "templates/common/vectors.cuh"
#include "templates/router/schedule.cuh"
#include "templates/router/score.cuh"

constexpr int kLanes = LANES, kVector = VECTOR;
constexpr int kStep = kLanes * kVector;  // experts that the lanes load at once
constexpr int kSteps = ceil_div(kExperts, kStep);
constexpr int kHeld = kSteps * kVector;  // experts of a lane
static_assert(kExperts % kVector == 0 && kStep <= kPartials, "the space keeps to both");

// How the best are found: select.cuh, select_radix.cuh, select_elect.cuh.
enum class Select { rounds, reduce, merge, radix, elect };
constexpr Select kSelect = Select::SELECT;
// Whether a lane's experts are neighbours, or vectors of them lie a step apart.
constexpr bool kNeighbours = kSelect == Select::elect;
static_assert(!kNeighbours || kSteps * kStep == kExperts, "the space keeps to it");

struct Lane {
  int lane = int(threadIdx.x) % kLanes;

  // The expert of a lane's i-th value; kExperts and more for none.
  __device__ __forceinline__ int expert(int i) const {
    return kNeighbours ? lane * kHeld + i : i / kVector * kStep + lane * kVector + i % kVector;
  }
};

// A lane's logits as they come from memory.
union LoadedRow {
  using Packed = typename PackedBytes<kVector* int(sizeof(Logit))>::Type;
  Packed packed[kSteps];
  Logit elements[kHeld];

  __device__ __forceinline__ void load(const Logit* row, Lane lane) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int first = lane.expert(step * kVector);
      if (first < kExperts) packed[step] = *reinterpret_cast<const Packed*>(row + first);
    }
  }

  __device__ __forceinline__ void read(float (&logits)[kHeld], Lane lane) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) logits[i] = lane.expert(i) < kExperts ? read_logit(elements[i]) : minus_infinity();
  }
};

// The biases of a lane's experts.
__device__ __forceinline__ void load_bias(float (&held)[kHeld], const float* bias, Lane lane) {
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    held[i] = kBias && lane.expert(i) < kExperts ? clean_bias(bias[lane.expert(i)]) : 0.0f;
}

// The same sum as sum_of_exponentials below, for lanes whose experts are neighbours: a power of two of them.
__device__ __forceinline__ float sum_of_neighbours(const float (&logits)[kHeld], float shift) {
  constexpr int kMost = 2 * kPartials;
  static_assert(!kNeighbours || !kNeedsSum || ((kExperts & (kExperts - 1)) == 0 && kExperts <= kMost));
  float partials[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) partials[i] = exponential(logits[i], shift);
#pragma unroll
  for (int distance = kExperts / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int i = 0; i < (distance < kHeld ? distance : kHeld); ++i) {
      const float other = distance < kHeld ? partials[(i + distance) % kHeld]
                                           : __shfl_xor_sync(kWholeWarp, partials[i], max_of(1, distance / kHeld));
      partials[i] = __fadd_rn(partials[i], other);
    }
  }
  return partials[0];
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
    for (int i = 0; i < half * kVector; ++i) partials[i] = __fadd_rn(partials[i], partials[i + half * kVector]);
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
    const float sum = kNeighbours ? sum_of_neighbours(logits, row.shift) : sum_of_exponentials(logits, row.shift, lane);
    row.inverse_sum = sum > 0.0f ? reciprocal_fast(sum) : 0.0f;
  }
  return row;
}
