// The kTopK best experts of a row, in order. Five ways:
// - rounds: the best of all lanes, kTopK times over; the lane that held it looks for its next best.
// - reduce: the same by the warp's own reductions, for rows of a whole warp.
// - merge: every lane sorts its best, then neighbours merge their lists, twice as far away each time.
// - radix: in select_radix.cuh.
// - elect: in select_elect.cuh.
#pragma once

#include "templates/router/row.cuh"

// Slot j lies in lane j % kLanes, at j / kLanes.
constexpr int kSlotsHeld = ceil_div(kTopK, kLanes);

// Slots in their lanes; the scores of lanes without a slot are 0.
struct Selected {
  int experts[kSlotsHeld];
  float scores[kSlotsHeld];
};

// The first selected has the largest logit, and the softmax of the selected needs no other.
constexpr bool kShiftIsFirst = kOverSelected && kByLogit && !kBias && kGroups == 1;

__device__ __forceinline__ u64 max_rank_across(u64 rank) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    const u64 other = __shfl_xor_sync(kWholeWarp, rank, distance);
    rank = max_of(rank, other);
  }
  return rank;
}

__device__ __forceinline__ void select_by_rounds(int (&slots)[kSlotsHeld], u32 (&orders)[kHeld], Lane lane) {
  u64 own = 0;
  const auto find_own = [&] {
    own = 0;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) own = max_of(own, rank_of(orders[i], u32(lane.expert(i))));
  };
  find_own();
#pragma unroll
  for (int j = 0; j < kTopK; ++j) {
    const u64 best = max_rank_across(own);
    const int expert = int(expert_of(best));
    if (lane.lane == j % kLanes) slots[j / kLanes] = expert;
    if (own == best) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        if (lane.expert(i) == expert) orders[i] = kTaken;
      }
      find_own();
    }
  }
}

struct Ranked {
  u32 order;
  int expert;
};

// A lane's two best. Of equals the first comes first: it has the lower id.
struct TwoOfLane {
  Ranked best{kTaken, kExperts}, second{kTaken, kExperts};

  // Values come in ascending order of experts.
  __device__ __forceinline__ void add(Ranked next) {
    const bool is_best = next.order > best.order, is_second = next.order > second.order;
    second = is_best ? best : is_second ? next : second;
    best = is_best ? next : best;
  }
};

__device__ __forceinline__ TwoOfLane two_of_lane(const u32 (&orders)[kHeld], Lane lane) {
  TwoOfLane two;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) two.add({orders[i], lane.expert(i)});
  return two;
}

// The two best of those that come behind `last`.
__device__ __forceinline__ TwoOfLane two_of_lane_behind(Ranked last, const u32 (&orders)[kHeld], Lane lane) {
  TwoOfLane two;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const bool is_behind = orders[i] < last.order || (orders[i] == last.order && lane.expert(i) > last.expert);
    two.add({is_behind ? orders[i] : kTaken, lane.expert(i)});
  }
  return two;
}

// A lane seldom holds more than two of the best; then it looks again.
__device__ __forceinline__ void select_by_reduction(int (&slots)[kSlotsHeld], const u32 (&orders)[kHeld], Lane lane) {
  static_assert(kSelect != Select::reduce || (kLanes == kWarpSize && kSlotsHeld == 1));
  TwoOfLane own = two_of_lane(orders, lane);
#pragma unroll 1
  for (int j = 0; j < kTopK; ++j) {
    const u32 order = __reduce_max_sync(kWholeWarp, own.best.order);
    const int expert = int(__reduce_min_sync(kWholeWarp, own.best.order == order ? u32(own.best.expert) : ~0u));
    if (lane.lane == j) slots[0] = expert;
    if (own.best.expert != expert) continue;
    own.best = own.second;
    own.second.order = kTaken;
    if (own.best.order == kTaken && j + 1 < kTopK) own = two_of_lane_behind({order, expert}, orders, lane);
  }
}

constexpr int kList = kTopKPower;  // entries of a lane's list

__device__ __forceinline__ void order_pair(u64& larger, u64& smaller) {
  const u64 a = larger, b = smaller;
  larger = max_of(a, b);
  smaller = min_of(a, b);
}

// A bitonic list into descending order.
__device__ __forceinline__ void merge_list(u64 (&list)[kList]) {
#pragma unroll
  for (int distance = kList / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int i = 0; i < kList; ++i) {
      if ((i & distance) == 0) order_pair(list[i], list[i + distance]);
    }
  }
}

// Batcher's bitonic sort, descending.
__device__ __forceinline__ void sort_list(u64 (&list)[kList]) {
#pragma unroll
  for (int size = 2; size <= kList; size *= 2) {
#pragma unroll
    for (int distance = size / 2; distance > 0; distance /= 2) {
#pragma unroll
      for (int i = 0; i < kList; ++i) {
        if ((i & distance) != 0) continue;
        if ((i & size) == 0 || size == kList) {
          order_pair(list[i], list[i + distance]);
        } else {
          order_pair(list[i + distance], list[i]);
        }
      }
    }
  }
}

// The best of two descending lists, in descending order.
__device__ __forceinline__ void keep_best(u64 (&list)[kList], const u64 (&other)[kList]) {
#pragma unroll
  for (int i = 0; i < kList; ++i) list[i] = max_of(list[i], other[kList - 1 - i]);
  merge_list(list);
}

__device__ __forceinline__ void select_by_merge(int (&slots)[kSlotsHeld], const u32 (&orders)[kHeld], Lane lane) {
  u64 list[kList];
#pragma unroll
  for (int first = 0; first < kHeld; first += kList) {
    u64 next[kList];
#pragma unroll
    for (int i = 0; i < kList; ++i)
      next[i] = first + i < kHeld ? rank_of(orders[first + i], u32(lane.expert(first + i))) : 0;
    sort_list(next);
    if (first == 0) {
#pragma unroll
      for (int i = 0; i < kList; ++i) list[i] = next[i];
    } else {
      keep_best(list, next);
    }
  }
#pragma unroll
  for (int distance = 1; distance < kLanes; distance *= 2) {
    u64 other[kList];
#pragma unroll
    for (int i = 0; i < kList; ++i) other[i] = __shfl_xor_sync(kWholeWarp, list[i], distance);
    keep_best(list, other);
  }
#pragma unroll
  for (int j = 0; j < kTopK; ++j) {
    if (lane.lane == j % kLanes) slots[j / kLanes] = int(expert_of(list[j]));
  }
}
