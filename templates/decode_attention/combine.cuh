// Combining the splits of a sequence: weights from their log-sum-exps, then a weighted sum of their outputs.
#pragma once

#include "templates/common/barrier.cuh"
#include "templates/common/dependent_launch.cuh"
#include "templates/common/reduce.cuh"
#include "templates/decode_attention/arguments.cuh"

constexpr int kCombineWarps = 4;
constexpr int kLaneDims = kHeadDim / kWarpSize;  // 2, 4 or 8

// What one warp knows of a row: its lanes hold kLaneDims neighbouring dimensions each.
struct CombinedRow {
  float values[kLaneDims];
  float weight;
};

// Sums splits first, first + step, ... of one row, weighted relative to the largest log-sum-exp of all splits.
__device__ __forceinline__ CombinedRow combine_splits(const float* partial_o, const float* partial_lse, int splits,
                                                      int first, int step) {
  const int lane = threadIdx.x % kWarpSize;
  float highest = minus_infinity();
  for (int split = lane; split < splits; split += kWarpSize) highest = fmaxf(highest, __ldcg(partial_lse + split));
  highest = max_across<kWarpSize>(highest);
  CombinedRow row = {};
#pragma unroll 8
  for (int split = first; split < splits; split += step) {
    const float weight = exp2_fast(__ldcg(partial_lse + split) - highest);
    const float2* source =
        reinterpret_cast<const float2*>(partial_o + static_cast<i64>(split) * kHeadDim + lane * kLaneDims);
    row.weight += weight;
#pragma unroll
    for (int i = 0; i < kLaneDims / 2; ++i) {
      const float2 pair = __ldcg(source + i);
      row.values[2 * i] += weight * pair.x;
      row.values[2 * i + 1] += weight * pair.y;
    }
  }
  return row;
}

__device__ __forceinline__ void write_row(Element* o, const CombinedRow& row) {
  const int lane = threadIdx.x % kWarpSize;
  u32* target = reinterpret_cast<u32*>(o + lane * kLaneDims);
  const float inverse = 1.0f / row.weight;
#pragma unroll
  for (int i = 0; i < kLaneDims / 2; ++i) {
    target[i] = Element::pack(row.values[2 * i] * inverse, row.values[2 * i + 1] * inverse);
  }
}

// The last block of a (sequence, head block) to finish combines for all. Called by the first kWarps warps after their
// partial results are written; the counter is left at zero for the next launch.
__device__ __forceinline__ void combine_if_last(u8* shared, const Work& work, const Outputs& outputs) {
  bool* last = reinterpret_cast<bool*>(shared + kFlagOffset);
  __threadfence();
  named_barrier_sync(2, kWarps * kWarpSize);
  if (threadIdx.x == 0) {
    u32* counter = outputs.counters + work.batch * gridDim.x + blockIdx.x;
    *last = atomicAdd(counter, 1u) == static_cast<u32>(work.splits - 1);
    if (*last) *counter = 0;
  }
  named_barrier_sync(2, kWarps * kWarpSize);
  if (!*last) return;
  __threadfence();
  for (int row = threadIdx.x / kWarpSize; row < work.rows; row += kWarps) {
    const i64 head = static_cast<i64>(work.batch) * work.q_heads + work.first_head + row;
    write_row(outputs.o + head * kHeadDim,
              combine_splits(outputs.partial_o + head * gridDim.y * kHeadDim,
                             outputs.partial_lse + head * gridDim.y, work.splits, 0, 1));
  }
}

// The combine as a kernel of its own: one block a (query head, sequence), its warps share the splits.
extern "C" __global__ void __launch_bounds__(kCombineWarps* kWarpSize)
    decode_attention_combine(const float* partial_o, const float* partial_lse, const i32* lengths, Element* o,
                             int splits) {
  __shared__ float values[kCombineWarps][kHeadDim];
  __shared__ float weights[kCombineWarps];
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  const int active = active_splits(lengths[blockIdx.y], splits);
  wait_for_predecessor();
  if (active == 1) return;
  const i64 head = static_cast<i64>(blockIdx.y) * gridDim.x + blockIdx.x;
  CombinedRow row = combine_splits(partial_o + head * splits * kHeadDim, partial_lse + head * splits, active, warp,
                                   kCombineWarps);
#pragma unroll
  for (int i = 0; i < kLaneDims; ++i) values[warp][lane * kLaneDims + i] = row.values[i];
  if (lane == 0) weights[warp] = row.weight;
  __syncthreads();
  if (warp != 0) return;
#pragma unroll
  for (int other = 1; other < kCombineWarps; ++other) {
#pragma unroll
    for (int i = 0; i < kLaneDims; ++i) row.values[i] += values[other][lane * kLaneDims + i];
    row.weight += weights[other];
  }
  write_row(o + head * kHeadDim, row);
}
