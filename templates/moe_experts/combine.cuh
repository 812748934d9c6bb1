// The last launch: each token's output as the weighted sum of its rows, in fp32 and in the order of its slots.
#pragma once

#include "templates/common/dependent_launch.cuh"
#include "templates/common/vectors.cuh"
#include "templates/moe_experts/shape.cuh"

constexpr int kCombineThreads = 256, kVectorValues = 8;  // kernels/moe/moe_experts_plan.cc has them too
constexpr int kRowsAtOnce = min_of(kTopK, 8);

extern "C" __global__ void __launch_bounds__(kCombineThreads)
    moe_experts_combine(const Element* products, const int* inverse, const float* weights, Element* out, i64 out_row,
                        int tokens, u32* counters, int counter_count) {
  allow_dependent_launch();
  wait_for_predecessor();
  if (blockIdx.x == 0) {  // for the next launch
    for (int i = threadIdx.x; i < counter_count; i += kCombineThreads) counters[i] = 0;
  }
  constexpr int kVectors = kHidden / kVectorValues;
  const i64 index = static_cast<i64>(blockIdx.x) * kCombineThreads + threadIdx.x;
  const bool is_there = index < static_cast<i64>(tokens) * kVectors;
  const i64 token = is_there ? index / kVectors : 0;
  const int column = static_cast<int>(is_there ? index - token * kVectors : 0) * kVectorValues;
  float sums[kVectorValues] = {};
#pragma unroll
  for (int batch = 0; batch < kTopK; batch += kRowsAtOnce) {
    // Reads are unconditional, so that they are in flight together: for a dropped slot, whose place is -1, of something
    // else, which counts nothing whatever its weight is.
    int places[kRowsAtOnce];
    float shares[kRowsAtOnce];
    VectorOf<16> rows[kRowsAtOnce];
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const i64 slot = token * kTopK + min_of(batch + r, kTopK - 1);
      places[r] = inverse[slot];
      shares[r] = weights[slot];
    }
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r)
      rows[r] = load_vector<16>(products + static_cast<i64>(max_of(places[r], 0)) * kHidden + column);
    __syncwarp();  // keeps the assembler from putting reads off until after the first sums
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      if (batch + r >= kTopK) break;
      const float share = places[r] < 0 ? 0.0f : shares[r];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        float low, high;
        Element::unpack(places[r] < 0 ? 0 : rows[r].words[w], low, high);
        sums[2 * w] = add_row(share, low, sums[2 * w]);
        sums[2 * w + 1] = add_row(share, high, sums[2 * w + 1]);
      }
    }
  }
  VectorOf<16> rounded;
#pragma unroll
  for (int w = 0; w < 4; ++w) rounded.words[w] = Element::pack(sums[2 * w], sums[2 * w + 1]);
  if (is_there) store_vector<false>(out + token * out_row + column, rounded);
}
