// The second launch of spans: a warp a packed row of the item that begins in a cluster's span and ends in another's.
#pragma once

#include "templates/mla_decode/combine.cuh"
#include "templates/mla_decode/span_walk.cuh"

constexpr int kCombineRows = 4;  // warps of a block

// The grid is (clusters, rows).
extern "C" __global__ void __launch_bounds__(kCombineRows* kWarpSize)
    mla_decode_combine_spans(const float* partial_o, const float* partial_lse, const LedItem* led_items, Element* o,
                             float* lse, i64 o_sequence, i64 o_token, i64 o_head) {
  wait_for_predecessor();
  allow_dependent_launch();
  const LedItem led = led_items[blockIdx.x];
  if (led.parts == 0) return;  // it was written whole
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize,
            row = static_cast<int>(blockIdx.y) * kCombineRows + warp;
  Work work;
  work.sequence = led.sequence;
  work.first_row = led.item * kGroupRows;
  if (row >= min_of(kGroupRows, kPackedRows - work.first_row)) return;
  const auto row_of = [&](int part) {
    const int slot = part == 0 ? led.first_slot : 2 * (static_cast<int>(blockIdx.x) + part);
    return static_cast<i64>(slot) * kGroupRows + row;
  };
  // The lanes lie side by side, so that a warp's loads are of whole lines.
  Combined<kLatent / kWarpSize, 2 * kWarpSize> combined;
  combined.add(partial_o + lane * 2, partial_lse, led.parts, row_of);
  combined.store(o + work.offset({o_sequence, o_token, o_head}, row) + lane * 2);
  if (kWantsLse && lane == 0) lse[work.global_row(row)] = combined.logarithm();
}
