// Moving one row to the places where its tokens' experts look for it.
//
// Macros: those of team.cuh; BY (an Order), FLIGHT (vectors that a lane reads before it writes the first), KEEP (with
// a scale of a token: 1 keeps the row in registers from the search for its largest value on, 0 reads it again).
#pragma once

#include "templates/moe_dispatch/team.cuh"

// place: a row for each place, read as often as its token has experts. token: each token's row is read once.
enum class Order { place, token };
constexpr bool kByToken = Order::BY == Order::token;
constexpr int kCopies = kByToken ? kTopK : 1, kFlight = FLIGHT;
constexpr bool kKeep = KEEP;

struct DispatchArguments {
  const Bf16* x;
  const int *sorted, *inverse;
  u8* rows;
  float* scales;
  i64 x_row;  // elements
  int tokens, places;
};

// A team moves a token's row, or zeros if there is none, to some places, or nowhere if they are negative.
struct Task {
  int token;
  int places[kCopies];
};

// The task of place `index`, or of token `index`.
__device__ __forceinline__ Task task_of(const DispatchArguments& a, int index) {
  Task task;
  if constexpr (kByToken) {
    task.token = index;
#pragma unroll
    for (int j = 0; j < kTopK; ++j) task.places[j] = a.inverse[index * kTopK + j];
  } else {
    const u32 slot = a.sorted[index];
    const bool present = slot < u32(a.tokens * kTopK);
    task.token = present ? int(slot / kTopK) : -1;
    task.places[0] = present || kZeroPadding ? index : -1;
  }
  return task;
}

__device__ __forceinline__ RowVector read_columns(const DispatchArguments& a, const Task& task, int column, int end) {
  if (task.token < 0 || column >= end) return zero_vector<VECTOR>();
  return load_vector<VECTOR>(a.x + task.token * a.x_row + column);
}

__device__ __forceinline__ void write_columns(const DispatchArguments& a, const Task& task, int column, int end,
                                              OutVector out) {
  if (column >= end) return;
#pragma unroll
  for (int j = 0; j < kCopies; ++j) {
    if (task.places[j] < 0) continue;
    u8* const row = a.rows + i64(task.places[j]) * kRowBytes;
    store_vector<kStream>(row + column * (kNarrow ? 1 : 2), out);
  }
}

__device__ __forceinline__ void write_scale(const DispatchArguments& a, const Task& task, int group, float scale) {
#pragma unroll
  for (int j = 0; j < kCopies; ++j) {
    if (task.places[j] >= 0) a.scales[scale_index(task.places[j], group, a.places)] = scale;
  }
}

// Calls use(step, vector) for every step of the row, kFlight of them read at a time.
template <typename Use>
__device__ __forceinline__ void for_each_vector(const DispatchArguments& a, const Task& task, const Place& at,
                                                Use use) {
#pragma unroll 1
  for (int begin = 0; begin < kSteps; begin += kFlight) {
    RowVector vectors[kFlight];
#pragma unroll
    for (int i = 0; i < kFlight; ++i) vectors[i] = read_columns(a, task, at.column(begin + i), at.end);
#pragma unroll
    for (int i = 0; i < kFlight; ++i) use(begin + i, vectors[i]);
  }
}

// All lanes of a warp take part for each step, those past the end with zeros.
__device__ __forceinline__ void move_with_group_scales(const DispatchArguments& a, const Task& task, const Place& at) {
  for_each_vector(a, task, at, [&](int step, RowVector vector) {
    const int column = at.column(step);
    const float scale = scale_of(max_across<kGroupLanes>(largest_magnitude(vector)));
    write_columns(a, task, column, at.end, out_vector(vector, inverse_of(scale)));
    if (column < at.end && column % kGroup == 0) write_scale(a, task, column / kGroup, scale);
  });
}

__device__ __forceinline__ void move_with_token_scale(const DispatchArguments& a, const Task& task, const Place& at) {
  RowVector kept[kKeep ? kSteps : 1];
  float largest = 0;
  if constexpr (kKeep) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) kept[i] = read_columns(a, task, at.column(i), at.end);
#pragma unroll
    for (int i = 0; i < kSteps; ++i) largest = fmaxf(largest, largest_magnitude(kept[i]));
  } else {
    for_each_vector(a, task, at, [&](int, RowVector vector) { largest = fmaxf(largest, largest_magnitude(vector)); });
  }
  const float scale = scale_of(team_max(largest)), inverse = inverse_of(scale);
  if (at.thread == 0) write_scale(a, task, 0, scale);
  const auto write = [&](int step, RowVector vector) {
    write_columns(a, task, at.column(step), at.end, out_vector(vector, inverse));
  };
  if constexpr (kKeep) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) write(i, kept[i]);
  } else {
    for_each_vector(a, task, at, write);
  }
}

__device__ __forceinline__ void move_row(const DispatchArguments& a, const Task& task, const Place& at) {
  if (!kByToken && task.places[0] < 0) return;  // the same for all of the team
  if constexpr (kScale == Scale::group) {
    move_with_group_scales(a, task, at);
  } else if constexpr (kScale == Scale::token) {
    move_with_token_scale(a, task, at);
  } else {
    for_each_vector(a, task, at, [&](int step, RowVector vector) {
      write_columns(a, task, at.column(step), at.end, out_vector(vector, 0));
    });
  }
}
