// Brings the rows of tokens into the order of their experts: row `place` of the output is that of token
// sorted[place] / TOP_K, as it is or in e4m3 with scales. docs/router.md has the layouts.
//
// Macros: those of shape.cuh, team.cuh and move.cuh; AHEAD (1: a team reads the places of its next row before it moves
// the current one).
#include "templates/common/dependent_launch.cuh"
#include "templates/moe_dispatch/move.cuh"

// Zeros, and scales of 1, for the block's columns of one place, by a warp.
__device__ __forceinline__ void clear_place(const DispatchArguments& a, int place, const Place& at) {
  const int lane = int(threadIdx.x) % kWarpSize;
  u8* const row = a.rows + i64(place) * kRowBytes;
  constexpr int kBytes = kNarrow ? 1 : 2;
  for (int column = at.first + lane * kElements; column < at.end; column += kWarpSize * kElements)
    store_vector<kStream>(row + column * kBytes, zero_vector<kOutBytes>());
  if constexpr (kNarrow) {
    for (int group = at.first / kGroup + lane; group * kGroup < at.end; group += kWarpSize)
      a.scales[scale_index(place, group, a.places)] = 1.0f;
  }
}

// Clears the places without a token, which no warp meets if each token is moved by itself. A warp reads the next 32 of
// its places at once.
__device__ __forceinline__ void clear_padding(const DispatchArguments& a, const Place& at) {
  const int warps = int(gridDim.x) * kWarps, lane = int(threadIdx.x) % kWarpSize;
  const int warp = int(blockIdx.x) * kWarps + int(threadIdx.x) / kWarpSize;
  for (i64 begin = warp; begin < a.places; begin += i64(warps) * kWarpSize) {
    const i64 own = begin + i64(lane) * warps;
    const bool padding = own < a.places && u32(a.sorted[own]) >= u32(a.tokens * kTopK);
    for (u32 left = __ballot_sync(kWholeWarp, padding); left != 0; left &= left - 1)
      clear_place(a, int(begin) + (__ffs(left) - 1) * warps, at);
  }
}

// Fills the padding of each column of scales, behind its last place.
__device__ __forceinline__ void clear_column_ends(const DispatchArguments& a) {
  const int rest = int(padded_places(a.places) - a.places);
  for (int i = threadIdx.x; i < rest * kGroups; i += kThreads)
    a.scales[scale_index(a.places + i % rest, i / rest, a.places)] = 1.0f;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    moe_dispatch(const Bf16* x, const int* sorted, const int* inverse, u8* rows, float* scales, i64 x_row, int tokens,
                 int places) {
  allow_dependent_launch();
  wait_for_predecessor();
  const DispatchArguments a{x, sorted, inverse, rows, scales, x_row, tokens, places};
  const Place at;
  const int tasks = kByToken ? tokens : places, stride = int(gridDim.x) * kTeams;
  int index = int(blockIdx.x) * kTeams + at.team;
  if (AHEAD) {
    Task next{};
    if (index < tasks) next = task_of(a, index);
    for (; index < tasks; index += stride) {
      const Task task = next;
      if (index + stride < tasks) next = task_of(a, index + stride);
      move_row(a, task, at);
    }
  } else {
    for (; index < tasks; index += stride) move_row(a, task_of(a, index), at);
  }
  if constexpr (kZeroPadding) {
    if (kByToken) clear_padding(a, at);
    if (kNarrow && kByColumns && blockIdx.x == 0 && blockIdx.y == 0) clear_column_ends(a);
  }
}
