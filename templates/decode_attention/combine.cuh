// Combining the splits of a sequence: a sum of their outputs weighted by their log-sum-exps, in one pass.
#pragma once

#include "templates/common/barrier.cuh"
#include "templates/common/dependent_launch.cuh"
#include "templates/common/global_sync.cuh"
#include "templates/common/reduce.cuh"
#include "templates/decode_attention/arguments.cuh"

constexpr int kCombineWarps = 4;
constexpr int kLaneDims = 2 * ceil_div(kHeadDim, 2 * kWarpSize);  // 2 to 8; the last lanes may have none

// Whether the lane has dimensions.
__device__ __forceinline__ bool has_dims() {
  return kHeadDim == kLaneDims * kWarpSize || static_cast<int>(threadIdx.x) % kWarpSize * kLaneDims < kHeadDim;
}

// One warp's part of a row: its lanes hold kLaneDims neighbouring dimensions each, summed with weights
// 2^(lse - maximum).
struct CombinedRow {
  float values[kLaneDims];
  float weight;
  float maximum;

  // Adds a sum that is relative to 2^lse; where lse is -inf, it has no weight.
  __device__ __forceinline__ void add(const float (&other)[kLaneDims], float other_weight, float lse) {
    const float highest = fmaxf(maximum, lse);
    const float keep = exp2_fast(maximum - highest), take = exp2_fast(lse - highest);
    maximum = highest;
    weight = keep * weight + take * other_weight;
#pragma unroll
    for (int i = 0; i < kLaneDims; ++i) values[i] = keep * values[i] + take * other[i];
  }
};

// Sums splits first, first + step, ... of one row. All loads of a batch are under way before the first is
// used.
template <int kBatch>
__device__ __forceinline__ CombinedRow combine_splits(const float* partial_o, const float* partial_lse,
                                                      const SplitRows& where, int splits, int first, int step) {
  const float* lane_o = partial_o + threadIdx.x % kWarpSize * kLaneDims;
  CombinedRow row = {{}, 0, lowest()};
  for (int begin = first; begin < splits; begin += kBatch * step) {
    float lse[kBatch], values[kBatch][kLaneDims] = {};
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int split = begin + i * step;
      if (split >= splits) continue;
      const i64 part = where.at(split);
      lse[i] = load_past_l1(partial_lse + part);
      const float2* source = reinterpret_cast<const float2*>(lane_o + part * kHeadDim);
#pragma unroll
      for (int pair = 0; pair < kLaneDims / 2; ++pair) {
        if (!has_dims()) continue;
        const float2 loaded = load_past_l1(source + pair);
        values[i][2 * pair] = loaded.x;
        values[i][2 * pair + 1] = loaded.y;
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (begin + i * step < splits) row.add(values[i], 1, lse[i]);
    }
  }
  return row;
}

// The end of a row's softmax, once all its tokens are summed relative to 2^maximum: the sink joins the
// denominator. A row that sees no token attends to nothing: the factor is 0, and without a sink the
// logarithm is -inf.
struct Softmax {
  float inverse;  // what the summed output is multiplied by
  float maximum;
  float sum;

  __device__ __forceinline__ Softmax(float running_maximum, float running_sum, const float* sinks, int q_head)
      : maximum(running_maximum), sum(running_sum) {
    float keep = 1;
    if constexpr (kSinks) {
      const float sink = sinks[q_head] * kLog2E;
      maximum = fmaxf(running_maximum, sink);
      keep = exp2_fast(running_maximum - maximum);
      sum = keep * running_sum + exp2_fast(sink - maximum);
    }
    inverse = sum == 0 ? 0.0f : keep / sum;  // NaN stays NaN
  }

  __device__ __forceinline__ float lse() const { return (maximum + log2_fast(sum)) * kLn2; }
};

// `offset` is the row's in o, `output_row` its place in lse.
__device__ __forceinline__ void write_row(const Outputs& outputs, i64 offset, i64 output_row, int q_head,
                                          const CombinedRow& row) {
  const int lane = threadIdx.x % kWarpSize;
  u32* target = reinterpret_cast<u32*>(outputs.o + offset + lane * kLaneDims);
  const Softmax softmax(row.maximum, row.weight, outputs.sinks, q_head);
  const float inverse = softmax.inverse;
  if (kWantsLse && lane == 0) outputs.lse[output_row] = softmax.lse();
  if (!has_dims()) return;
#pragma unroll
  for (int i = 0; i < kLaneDims / 2; ++i) {
    target[i] = Element::pack(row.values[2 * i] * inverse, row.values[2 * i + 1] * inverse);
  }
}

// The last block of an item to finish combines for all. Called by the first kWarps warps after their partial
// results are written; the counter is left at zero for the next launch.
__device__ __forceinline__ void combine_if_last(u8* shared, const Work& work, const Outputs& outputs) {
  volatile bool* last = reinterpret_cast<bool*>(shared + kFlagOffset);
  __threadfence();
  named_barrier_sync(2, kWarps * kWarpSize);
  if (threadIdx.x == 0) {
    u32* counter = outputs.counters + work.counter();
    const bool all = atomicAdd(counter, 1u) == static_cast<u32>(work.splits - 1);
    if (all) *counter = 0;
    *last = all;
  }
  named_barrier_sync(2, kWarps * kWarpSize);
  if (!*last) return;
  __threadfence();
  for (int row = threadIdx.x / kWarpSize; row < work.rows; row += kWarps) {
    write_row(outputs, work.row_offset(outputs.strides, row), work.output_row(row), work.query_head(row),
              combine_splits<4>(outputs.partial_o, outputs.partial_lse, work.split_rows(row), work.splits, 0, 1));
  }
}
