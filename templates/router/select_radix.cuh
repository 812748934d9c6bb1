// Selection by radix, for rows of a whole warp: the bits of the kTopK-th best order are found from the highest down,
// two at a time, by how many experts reach each candidate. Then those that reach it are put in order.
#pragma once

#include "templates/router/select.cuh"

constexpr int kCountBits = 10;  // of a count of experts
static_assert(kSelect != Select::radix || kExperts < 1 << kCountBits, "three counts share a word");

// Selects all above `order`, and of those equal to it the ids below `end`.
struct Threshold {
  u32 order = 0;
  int end = kExperts;

  __device__ __forceinline__ bool admits(u32 own, int expert) const {
    return own > order || (own == order && expert < end);
  }
};

// The largest order that at least kTopK experts reach. Ends early if no more than kTopK reach one; then all of them
// are selected. Returns how many do.
__device__ __forceinline__ int find_order(u32& order, const u32 (&orders)[kHeld]) {
  int reached = kExperts;
#pragma unroll 1
  for (int shift = 30; shift >= 0 && reached != kTopK; shift -= 2) {
    u32 own = 0;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
#pragma unroll
      for (u32 digit = 1; digit < 4; ++digit)
        own += u32(orders[i] >= (order | digit << shift)) << (digit - 1) * kCountBits;
    }
    const u32 counts = __reduce_add_sync(kWholeWarp, own);
    u32 best = 0;
#pragma unroll
    for (u32 digit = 1; digit < 4; ++digit) {
      const int count = int(counts >> (digit - 1) * kCountBits & ((1u << kCountBits) - 1));
      if (count < kTopK) continue;
      best = digit;
      reached = count;
    }
    order |= best << shift;
  }
  return reached;
}

// If more than kTopK experts reach the order: the end of the lowest ids among those that are equal to it.
__device__ __forceinline__ int find_end(u32 order, const u32 (&orders)[kHeld], Lane lane) {
  int end = 0;
#pragma unroll 1
  for (int bit = 1 << (kCountBits - 1); bit > 0; bit /= 2) {
    u32 own = 0;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) own += Threshold{order, end | bit}.admits(orders[i], lane.expert(i));
    if (__reduce_add_sync(kWholeWarp, own) <= kTopK) end |= bit;
  }
  return end;
}

// The j-th of the selected, in no order, goes to lane j.
__device__ __forceinline__ Ranked gather_selected(Threshold threshold, const u32 (&orders)[kHeld], Lane lane) {
  Ranked own{kTaken, kExperts};
  int next = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    u32 from = __ballot_sync(kWholeWarp, threshold.admits(orders[i], lane.expert(i)));
    for (; from != 0; from &= from - 1) {
      Lane source;
      source.lane = __ffs(int(from)) - 1;
      const u32 order = __shfl_sync(kWholeWarp, orders[i], source.lane);
      if (lane.lane == next++) own = {order, source.expert(i)};
    }
  }
  return own;
}

__device__ __forceinline__ void select_by_radix(int (&slots)[kSlotsHeld], const u32 (&orders)[kHeld], Lane lane) {
  static_assert(kSelect != Select::radix || (kLanes == kWarpSize && kSlotsHeld == 1));
  Threshold threshold;
  if (find_order(threshold.order, orders) > kTopK) threshold.end = find_end(threshold.order, orders, lane);
  const Ranked own = gather_selected(threshold, orders, lane);
  int experts[kTopK], better = 0;
#pragma unroll
  for (int j = 0; j < kTopK; ++j) {
    const u32 order = __shfl_sync(kWholeWarp, own.order, j);
    experts[j] = __shfl_sync(kWholeWarp, own.expert, j);
    better += order > own.order || (order == own.order && experts[j] < own.expert);
  }
#pragma unroll
  for (int j = 0; j < kTopK; ++j) {
    if (__shfl_sync(kWholeWarp, better, j) == lane.lane) slots[0] = experts[j];
  }
}
