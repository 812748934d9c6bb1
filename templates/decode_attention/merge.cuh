// The end of a block's work on an item: the workers' shares of the softmax merged through shared memory, then
// written as the result, or handed on as one split's part of it.
#pragma once

#include "templates/common/barrier.cuh"
#include "templates/decode_attention/combine.cuh"
#include "templates/decode_attention/inbox.cuh"
#include "templates/decode_attention/math.cuh"

__device__ __forceinline__ float scaled(float inverse, const Outputs& outputs) {
  return kNarrow ? inverse * outputs.v_scale : inverse;
}

// Called by the first kWarps warps, which have waited for the others of a cluster; where the merge reuses the
// ring, once nothing reads it or is still being copied into it.
__device__ __forceinline__ void finish(u8* shared, const Attention& attention, const Work& work,
                                       const Outputs& outputs) {
  const Inbox inbox(shared);
  if (work.empty() && !inbox.exists()) return;
  float* rows = reinterpret_cast<float*>(shared + kMergeOffset);
  float* maxima = rows + kWorkers * kRows * kMergeStride;
  float* sums = maxima + kWorkers * kRows;
  const int worker = threadIdx.x / kWorkerThreads;
  named_barrier_sync(2, kWarps * kWarpSize);
  attention.store_partial(rows + worker * kRows * kMergeStride, maxima + worker * kRows, sums + worker * kRows);
  named_barrier_sync(2, kWarps * kWarpSize);

  for (int i = threadIdx.x; i < work.rows * kQuads; i += kWarps * kWarpSize) {
    const int row = i / kQuads, quad = i % kQuads;
    float highest = lowest();
#pragma unroll
    for (int other = 0; other < kWorkers; ++other) highest = fmaxf(highest, maxima[other * kRows + row]);
    float sum = 0;
    float4 total = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int other = 0; other < kWorkers; ++other) {
      const float weight = exp2_fast(maxima[other * kRows + row] - highest);
      const float4 part = reinterpret_cast<const float4*>(rows + (other * kRows + row) * kMergeStride)[quad];
      sum += weight * sums[other * kRows + row];
      total.x += weight * part.x;
      total.y += weight * part.y;
      total.z += weight * part.z;
      total.w += weight * part.w;
    }
    if (work.splits == 1 && !inbox.exists()) {
      const Softmax softmax(highest, sum, outputs.sinks, work.query_head(row));
      write_quad(outputs.o + work.row_offset(outputs.strides, row), quad, total, scaled(softmax.inverse, outputs));
      if (kWantsLse && quad == 0) outputs.lse[work.output_row(row)] = softmax.lse();
      continue;
    }
    const float inverse = scaled(inverse_of(sum), outputs), lse = highest + log2_fast(sum);
    total = make_float4(total.x * inverse, total.y * inverse, total.z * inverse, total.w * inverse);
    if (inbox.exists()) {
      inbox.send(i, total, lse);
    } else {
      const i64 part = work.split_rows(row).at(work.split);
      reinterpret_cast<float4*>(outputs.partial_o + part * kHeadDim)[quad] = total;
      if (quad == 0) outputs.partial_lse[part] = lse;
    }
  }
  if (inbox.exists()) {
    inbox.receive(work, outputs);
  } else if (work.splits > 1 && outputs.counters != nullptr) {
    combine_if_last(shared, work, outputs);
  }
}
