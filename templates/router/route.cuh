// From logits to ids and weights: a warp takes kRowsOfWarp tokens at a time.
//
// Macros: ROWS (tokens that the same lanes take at once), DEPENDENTS (early, loaded or selected).
#pragma once

#include "templates/common/dependent_launch.cuh"
#include "templates/router/select_elect.cuh"
#include "templates/router/select_radix.cuh"

constexpr int kRows = ROWS;
constexpr int kRowsOfWarp = kWarpSize / kLanes * kRows;
constexpr int kRowsOfBlock = kWarps * kRowsOfWarp;
// Whether the next rows are loaded before the present ones are worked on: few logits, which registers hold twice.
constexpr bool kLoadsAhead = kRows * kHeld <= 16;

// When the next kernel's blocks may come: at once, when a block has asked for its first logits, or when it has
// selected. The sooner they come, the more they take from blocks that still work.
enum class Dependents { early, loaded, selected };
constexpr Dependents kDependents = Dependents::DEPENDENTS;

struct RouteArguments {
  const Logit* logits;
  const float* bias;
  Id* ids;
  float* weights;
  i64 logits_row;  // elements
  int live;        // tokens that are routed
  float scale;
};

__device__ __forceinline__ RowSoftmax row_softmax(const float (&logits)[kHeld], Lane lane) {
  if constexpr (kScore == Score::softmax || kScore == Score::topk_softmax) {
    if constexpr (!kShiftIsFirst) return softmax_of(logits, lane);
  }
  return {};
}

__device__ __forceinline__ void order_experts(u32 (&orders)[kHeld], const float (&logits)[kHeld], const RowSoftmax& row,
                                              const float (&bias)[kHeld], Lane lane) {
  float scores[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int expert = lane.expert(i);
    scores[i] = expert < kExperts ? selection_score(logits[i], row, bias[i]) : minus_infinity();
    orders[i] = expert < kExperts ? order_of_number(scores[i]) : kTaken;
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
__device__ __forceinline__ void score_selected(Selected& selected, const Logit* row, RowSoftmax softmax, Lane lane) {
  float logits[kSlotsHeld];
#pragma unroll
  for (int s = 0; s < kSlotsHeld; ++s) {
    const bool used = s * kLanes + lane.lane < kTopK;
    logits[s] = used ? read_logit(row[selected.experts[s]]) : minus_infinity();
  }
  if constexpr (kShiftIsFirst) softmax.shift = softmax_shift(__shfl_sync(kWholeWarp, logits[0], 0, kLanes));
#pragma unroll
  for (int s = 0; s < kSlotsHeld; ++s) selected.scores[s] = score_of(logits[s], softmax);
}

__device__ __forceinline__ float sum_of_selected(const Selected& selected) {
  if constexpr (!kOverSelected && !kRenormalize) return 0;
  constexpr int kSums = ceil_div(kSlotsOfSum, kLanes);
  float sums[kSums];
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    sums[s] = selected.scores[s];
#pragma unroll
    for (int distance = 1; distance < min_of(kSlotsOfSum, kLanes); distance *= 2)
      sums[s] = __fadd_rn(sums[s], __shfl_xor_sync(kWholeWarp, sums[s], distance));
  }
#pragma unroll
  for (int distance = 1; distance < kSums; distance *= 2) {
#pragma unroll
    for (int s = 0; s + distance < kSums; s += 2 * distance) sums[s] = __fadd_rn(sums[s], sums[s + distance]);
  }
  return sums[0];
}

__device__ __forceinline__ void select(Selected& selected, const float (&logits)[kHeld], const float (&bias)[kHeld],
                                       const Logit* row, Lane lane) {
  const RowSoftmax softmax = row_softmax(logits, lane);
  selected = {};
  if constexpr (kSelect == Select::elect) {
    select_by_election(selected, logits, softmax, bias, lane);
    return;
  }
  u32 orders[kHeld];
  order_experts(orders, logits, softmax, bias, lane);
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
}

struct Nothing {
  template <typename... Types>
  __device__ __forceinline__ void operator()(Types...) const {}
};

// A token past the end computes the first token's row, so that all lanes take part, and stores nothing. The weights
// come last: others may wait for the experts.
template <typename Use, typename UseRow>
__device__ __forceinline__ void route_row(const RouteArguments& a, const float (&logits)[kHeld],
                                          const float (&bias)[kHeld], const Logit* row, int token, bool present,
                                          Lane lane, Use use, UseRow use_row) {
  Selected selected;
  select(selected, logits, bias, row, lane);
#pragma unroll
  for (int s = 0; s < kSlotsHeld; ++s) {
    const int slot = s * kLanes + lane.lane;
    if (present && slot < kTopK) use(token, slot, selected.experts[s]);
  }
  use_row(token, present, lane);
  const float sum = sum_of_selected(selected);
#pragma unroll
  for (int s = 0; s < kSlotsHeld; ++s) {
    const int slot = s * kLanes + lane.lane;
    if (!present || slot >= kTopK) continue;
    a.ids[i64(token) * kTopK + slot] = selected.experts[s];
    a.weights[i64(token) * kTopK + slot] = weight_of(selected.scores[s], sum, a.scale);
  }
}

// The rows that a warp takes at once.
struct WarpRows {
  LoadedRow loaded[kRows];
  const Logit* rows[kRows];

  // A token past the end has the first token's row.
  __device__ __forceinline__ void load(const RouteArguments& a, int begin, int first, int last, Lane lane) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int token = begin + r;
      rows[r] = a.logits + (token < last ? token : first) * a.logits_row;
      loaded[r].load(rows[r], lane);
    }
  }
};

// The tokens from `first` to `end`, by all warps of the block. All its warps make the same number of rounds, so that
// the compiler knows their lanes together. Calls `use(token, slot, expert)` in the lane that stores, then
// `use_row(token, present, lane)` in all lanes of the row.
template <typename Use, typename UseRow = Nothing>
__device__ __forceinline__ void route(const RouteArguments& a, int first, int end, Use use, UseRow use_row = {}) {
  const int last = min_of(end, a.live);
  if constexpr (kCounted) {
    for (i64 slot = i64(max_of(first, last)) * kTopK + threadIdx.x; slot < i64(end) * kTopK; slot += kThreads) {
      a.ids[slot] = -1;
      a.weights[slot] = 0;
    }
  }
  const Lane lane;
  float bias[kHeld];
  load_bias(bias, a.bias, lane);
  const int warp = int(threadIdx.x) / kWarpSize;
  const int row_of_warp = int(threadIdx.x) % kWarpSize / kLanes * kRows;
  const int rounds = ceil_div(last - first, kRowsOfBlock);
  int begin = first + warp * kRowsOfWarp + row_of_warp;
  WarpRows next;
  if (kLoadsAhead && rounds > 0) next.load(a, begin, first, last, lane);
#pragma unroll 1
  for (int round = 0; round < rounds; ++round, begin += kRowsOfBlock) {
    if constexpr (!kLoadsAhead) next.load(a, begin, first, last, lane);
    if (kDependents == Dependents::loaded && round == 0) allow_dependent_launch();
    const WarpRows current = next;
    if (kLoadsAhead && round + 1 < rounds) next.load(a, begin + kRowsOfBlock, first, last, lane);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float logits[kHeld];
      current.loaded[r].read(logits, lane);
      route_row(a, logits, bias, current.rows[r], begin + r, begin + r < last, lane, use, use_row);
    }
  }
  if constexpr (kDependents == Dependents::selected) allow_dependent_launch();
}
