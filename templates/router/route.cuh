// From logits to ids and weights: a warp takes kRowsOfWarp tokens at a time.
//
// Macros: ROWS (tokens that the same lanes take at once), WARPS.
#pragma once

#include "templates/router/groups.cuh"
#include "templates/router/select_radix.cuh"

constexpr int kRows = ROWS, kWarps = WARPS, kThreads = kWarps * kWarpSize;
constexpr int kRowsOfWarp = kWarpSize / kLanes * kRows;
constexpr int kRowsOfBlock = kWarps * kRowsOfWarp;

struct RouteArguments {
  const Logit* logits;
  const float* bias;
  Id* ids;
  float* weights;
  i64 logits_row;  // elements
  int live;        // tokens that are routed
  float scale;
};

// Slots in their lanes.
struct Selected {
  int experts[kSlotsHeld];
  float scores[kSlotsHeld];
};

__device__ __forceinline__ RowSoftmax row_softmax(const float (&logits)[kHeld], Lane lane) {
  constexpr bool kFirstIsLargest = kByLogit && !kBias && kGroups == 1;
  if constexpr (kScore == Score::softmax || kScore == Score::topk_softmax) {
    if constexpr (!(kFirstIsLargest && kOverSelected)) return softmax_of(logits, lane);
  }
  return {};
}

__device__ __forceinline__ void order_experts(u32 (&orders)[kHeld], const float (&logits)[kHeld],
                                              const RowSoftmax& row, const float (&bias)[kHeld], Lane lane) {
  float scores[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int expert = lane.expert(i);
    scores[i] = expert < kExperts ? selection_score(logits[i], row, bias[i]) : minus_infinity();
    orders[i] = expert < kExperts ? order_of(scores[i]) : kTaken;
  }
  if constexpr (kGroups > 1) {
    const u32 kept = kept_groups(scores, lane);
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int expert = lane.expert(i);
      if (expert < kExperts && !(kept >> (expert / kGroupSize) & 1)) orders[i] = kOfDroppedGroup;
    }
  }
}

// The logits of the selected are read again: the lane that holds a slot seldom holds its expert.
__device__ __forceinline__ void score_selected(Selected& selected, const Logit* row, RowSoftmax softmax,
                                               Lane lane) {
  float logits[kSlotsHeld];
#pragma unroll
  for (int s = 0; s < kSlotsHeld; ++s) {
    const bool used = s * kLanes + lane.lane < kTopK;
    logits[s] = used ? clean(Logit::to_float(row[selected.experts[s]])) : minus_infinity();
  }
  if constexpr (kOverSelected && kByLogit && !kBias && kGroups == 1)
    softmax.shift = softmax_shift(__shfl_sync(kWholeWarp, logits[0], 0, kLanes));
#pragma unroll
  for (int s = 0; s < kSlotsHeld; ++s) selected.scores[s] = score_of(logits[s], softmax);
}

__device__ __forceinline__ float sum_of_selected(const Selected& selected) {
  float sum = 0;
  if constexpr (kOverSelected || kRenormalize) {
#pragma unroll
    for (int j = 0; j < kTopK; ++j)
      sum = __fadd_rn(sum, __shfl_sync(kWholeWarp, selected.scores[j / kLanes], j % kLanes, kLanes));
  }
  return sum;
}

// A token past the end computes the first token's row, so that all lanes take part, and stores nothing.
template <typename Use>
__device__ __forceinline__ void route_row(const RouteArguments& a, const float (&logits)[kHeld],
                                          const float (&bias)[kHeld], const Logit* row, int token,
                                          bool present, Lane lane, Use use) {
  const RowSoftmax softmax = row_softmax(logits, lane);
  u32 orders[kHeld];
  order_experts(orders, logits, softmax, bias, lane);
  Selected selected = {};
  if constexpr (kSelect == Select::rounds) {
    select_by_rounds(selected.experts, orders, lane);
  } else if constexpr (kSelect == Select::reduce) {
    select_by_reduction(selected.experts, orders, lane);
  } else if constexpr (kSelect == Select::radix) {
    select_by_radix(selected.experts, orders, lane);
  } else {
    select_by_merge(selected.experts, orders, lane);
  }
  score_selected(selected, row, softmax, lane);
  const float sum = sum_of_selected(selected);
#pragma unroll
  for (int s = 0; s < kSlotsHeld; ++s) {
    const int slot = s * kLanes + lane.lane;
    if (!present || slot >= kTopK) continue;
    a.ids[i64(token) * kTopK + slot] = selected.experts[s];
    a.weights[i64(token) * kTopK + slot] = weight_of(selected.scores[s], sum, a.scale);
    use(token, slot, selected.experts[s]);
  }
}

// The tokens from `first` to `end`, by all warps of the block. Calls `use(token, slot, expert)` in the lane that
// stores.
template <typename Use>
__device__ __forceinline__ void route(const RouteArguments& a, int first, int end, Use use) {
  const int last = min_of(end, a.live);
  if constexpr (kCounted) {
    for (i64 slot = i64(max_of(first, last)) * kTopK + threadIdx.x; slot < i64(end) * kTopK;
         slot += kThreads) {
      a.ids[slot] = -1;
      a.weights[slot] = 0;
    }
  }
  const Lane lane;
  float bias[kHeld];
  load_bias(bias, a.bias, lane);
  const int warp = int(threadIdx.x) / kWarpSize;
  const int row_of_warp = int(threadIdx.x) % kWarpSize / kLanes * kRows;
  for (int begin = first + warp * kRowsOfWarp; begin < last; begin += kRowsOfBlock) {
    float logits[kRows][kHeld];
    const Logit* rows[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int token = begin + row_of_warp + r;
      rows[r] = a.logits + (token < last ? token : first) * a.logits_row;
      load_row(logits[r], rows[r], lane);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int token = begin + row_of_warp + r;
      route_row(a, logits[r], bias, rows[r], token, token < last, lane, use);
    }
  }
}
