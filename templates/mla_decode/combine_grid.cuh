// The second launch of a grid of splits: one block a packed row.
#pragma once

#include "templates/mla_decode/combine.cuh"

extern "C" __global__ void __launch_bounds__(128)
    mla_decode_combine(const float* partial_o, const float* partial_lse, const i32* lengths, Element* o, float* lse,
                       i64 o_sequence, i64 o_token, i64 o_head, int capacity, int span, int splits) {
  wait_for_predecessor();
  allow_dependent_launch();
  const Work work(blockIdx.x, 0, blockIdx.y, lengths, capacity, span);
  if (work.splits == 1) return;  // the only block wrote the result itself
  const i64 first = work.global_row(0) * splits;
  const u32 column = threadIdx.x * 4;
  Combined<4, 2> row;
  row.add(partial_o + first * kLatent + column, partial_lse + first, work.splits, [](int split) { return split; });
  row.store(o + work.offset({o_sequence, o_token, o_head}, 0) + column);
  if (kWantsLse && threadIdx.x == 0) lse[work.global_row(0)] = row.logarithm();
}
