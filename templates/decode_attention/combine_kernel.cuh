// The combine as a kernel of its own: one block a row, whose warps share the splits. A grid that is split
// evenly has a block for every row of o; a persistent one has kRows for every span, since at most one item
// that is split begins in each.
#pragma once

#include "templates/decode_attention/combine.cuh"
#include "templates/decode_attention/span_walk.cuh"

// Called by every thread of a block of kCombineWarps warps.
__device__ __forceinline__ void combine_row(const float* partial_o, const float* partial_lse, const SplitRows& where,
                                            int splits, const Outputs& outputs, i64 offset, i64 output_row,
                                            int q_head) {
  __shared__ CombinedRow shared[kCombineWarps][kWarpSize];
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  CombinedRow row = combine_splits<8>(partial_o, partial_lse, where, splits, warp, kCombineWarps);
  shared[warp][lane] = row;
  __syncthreads();
  if (warp != 0) return;
  for (int other = 1; other < min_of(splits, kCombineWarps); ++other) {
    const CombinedRow part = shared[other][lane];
    row.add(part.values, part.weight, part.maximum);
  }
  write_row(outputs, offset, output_row, q_head, row);
}

// Lengths are an input, and safe to read before the wait: the attention kernel lets this one start only once
// its own inputs are there.
#if PERSISTENT
extern "C" __global__ void __launch_bounds__(kCombineWarps* kWarpSize)
    decode_attention_combine(const float* partial_o, const float* partial_lse, const i32* lengths, const float* sinks,
                             Element* o, float* lse, i64 o_sequence_stride, i64 o_token_stride, i64 o_head_stride,
                             int capacity, int batch, int kv_heads) {
  SpanWalk walk(lengths, capacity, batch, kv_heads, true);
  const bool in_parts = walk.enter_led_item();
  allow_dependent_launch();
  wait_for_predecessor();
  if (!in_parts) return;
  const Work work = walk.work();
  const int row = blockIdx.y;
  const RowStrides strides = {o_sequence_stride, o_token_stride, o_head_stride};
  combine_row(partial_o, partial_lse, work.split_rows(row), work.splits, {o, strides, lse, sinks},
              work.row_offset(strides, row), work.output_row(row), work.query_head(row));
}
#else
extern "C" __global__ void __launch_bounds__(kCombineWarps* kWarpSize)
    decode_attention_combine(const float* partial_o, const float* partial_lse, const i32* lengths, const float* sinks,
                             Element* o, float* lse, i64 o_sequence_stride, i64 o_token_stride, i64 o_head_stride,
                             int capacity, int splits) {
  const int active = active_splits(clamp_length(read_settled(lengths + blockIdx.y), capacity), splits);
  const i64 output_row = static_cast<i64>(blockIdx.y) * gridDim.x + blockIdx.x, first = output_row * splits;
  const int q_heads = gridDim.x / kQueries;
  const int token = kQueries == 1 ? 0 : blockIdx.x / q_heads, head = blockIdx.x - token * q_heads;
  const i64 offset = blockIdx.y * o_sequence_stride + token * o_token_stride + head * o_head_stride;
  read_early(offset, o, lse, partial_o, partial_lse);
  allow_dependent_launch();
  wait_for_predecessor();
  if (active == 1) return;  // the only block wrote the result itself
  combine_row(partial_o, partial_lse, {first, first, 1}, active, {o, {}, lse, sinks}, offset, output_row, head);
}
#endif
