// What the blocks of a grid know of each other: whose tokens are routed, and which block is the last to need the state.
#pragma once

#include "templates/common/global_sync.cuh"

constexpr int kFlags = 32;      // of a word
constexpr int kPatience = 128;  // looks at the grid's flags before a block does another's work

// Zeroed once; every launch leaves all of it at zero.
struct GridState {
  u32 leavers;    // blocks that are done with the state
  u32 routed[1];  // of a barrier: a flag for each block whose counts are in memory
};

// Whether this block is the last to arrive; then it sees what all have stored. `flag` is shared. The last block zeroes
// `leavers` before it ends.
__device__ __forceinline__ bool arrives_last(GridState* state, int& flag) {
  __syncthreads();
  if (threadIdx.x == 0) flag = add_acquire_release(&state->leavers, 1) == gridDim.x - 1;
  __syncthreads();
  return flag != 0;
}

__device__ __forceinline__ int flag_words() { return ceil_div(int(gridDim.x), kFlags); }

// What word `word` holds once all of its blocks have set their flags.
__device__ __forceinline__ u32 full_word(int word) {
  const int flags = min_of(int(gridDim.x) - word * kFlags, kFlags);
  return 0xffffffffu >> (kFlags - flags);
}

// One thread, after a __syncthreads that follows the counts. Returns the flags of its word as they were; who looks at
// them before others' flags waits longer.
__device__ __forceinline__ u32 set_routed(GridState* state, int block) {
  return or_release(&state->routed[block / kFlags], 1u << block % kFlags);
}

__device__ __forceinline__ bool is_routed(const GridState* state, int block) {
  return (load_acquire(&state->routed[block / kFlags]) >> block % kFlags & 1) != 0;
}

// By the first warp: -1 once all blocks' tokens are routed. If that takes long, a block may not be running, because
// others hold its place: the first, from this one on, whose tokens are not routed.
__device__ __forceinline__ int unrouted_block(const GridState* state) {
  const int lane = int(threadIdx.x) % kWarpSize, blocks = int(gridDim.x);
#pragma unroll 1
  for (int look = 0; look < kPatience; ++look) {
    bool full = true;
#pragma unroll 1
    for (int w = lane; w < flag_words(); w += kWarpSize)
      full &= load_acquire(&state->routed[w]) == full_word(w);
    if (__all_sync(kWholeWarp, full)) return -1;
  }
#pragma unroll 1
  for (int i = 1; i < blocks; ++i) {
    const int block = (int(blockIdx.x) + i) % blocks;
    const bool routed = is_routed(state, block);
    if (!__any_sync(kWholeWarp, routed)) return block;
  }
  return -1;
}

// One thread, once it has seen all flags: how many blocks had left before. A block whose flag was set by another too
// fences its own first; whoever sees a flag that only one has set, has seen all there is to zero.
__device__ __forceinline__ u32 leave_grid(GridState* state, bool was_set) {
  if (was_set) __threadfence();
  return atomicAdd(&state->leavers, 1u);
}

// The last block to leave zeroes the state for the next launch.
__device__ __forceinline__ void reset_if_last(GridState* state, u32 left_before) {
  if (left_before != gridDim.x - 1) return;
  for (int w = 0; w < flag_words(); ++w) state->routed[w] = 0;
  state->leavers = 0;
}
