// The parts of a row's tokens put together: their outputs weighted by their log-sum-exps. One block a packed row.
#pragma once

#include "templates/common/dependent_launch.cuh"
#include "templates/common/global_sync.cuh"
#include "templates/common/reduce.cuh"
#include "templates/mla_decode/shape.cuh"

extern "C" __global__ void __launch_bounds__(128)
    mla_decode_combine(const float* partial_o, const float* partial_lse, const i32* lengths, Element* o, float* lse,
                       i64 o_sequence, i64 o_token, i64 o_head, int capacity, int span, int splits) {
  wait_for_predecessor();
  allow_dependent_launch();
  const Work work(blockIdx.x, 0, blockIdx.y, lengths, capacity, span);
  if (work.splits == 1) return;  // the only block wrote the result itself
  const i64 first = work.global_row(0) * splits;
  const float* const from = partial_o + first * kLatent + threadIdx.x * 4;
  float maximum = lowest(), sum = 0, total[4] = {};
  constexpr int kBatch = 8;  // loads under way
  for (int begin = 0; begin < work.splits; begin += kBatch) {
    float parts[kBatch];
    float2 values[kBatch][2];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int split = min_of(begin + i, work.splits - 1);
      parts[i] = load_past_l1(partial_lse + first + split);
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        values[i][pair] = load_past_l1(reinterpret_cast<const float2*>(from + split * kLatent) + pair);
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (begin + i >= work.splits) break;
      const float highest = fmaxf(maximum, parts[i]);
      const float keep = exp2_fast(maximum - highest), take = exp2_fast(parts[i] - highest);
      maximum = highest;
      sum = keep * sum + take;
      total[0] = keep * total[0] + take * values[i][0].x;
      total[1] = keep * total[1] + take * values[i][0].y;
      total[2] = keep * total[2] + take * values[i][1].x;
      total[3] = keep * total[3] + take * values[i][1].y;
    }
  }
  const float inverse = inverse_of(sum);
  const RowStrides strides = {o_sequence, o_token, o_head};
  u32* const to = reinterpret_cast<u32*>(o + work.offset(strides, 0) + threadIdx.x * 4);
  to[0] = Element::pack(total[0] * inverse, total[1] * inverse);
  to[1] = Element::pack(total[2] * inverse, total[3] * inverse);
  if (kWantsLse && threadIdx.x == 0) lse[work.global_row(0)] = (maximum + log2_fast(sum)) * kLn2;
}
