// Finds the last block of a grid to arrive.
#pragma once

#include "templates/common/global_sync.cuh"

// Zeroed once; every launch leaves all of it at zero.
struct GridState {
  u32 blocks_done;  // with what they share
};

// Whether this block is the last to arrive; then it sees what all have stored. `flag` is shared. The last block zeroes
// `blocks_done` before it ends.
__device__ __forceinline__ bool arrives_last(GridState* state, int& flag) {
  __syncthreads();
  if (threadIdx.x == 0) flag = add_acquire_release(&state->blocks_done, 1) == gridDim.x - 1;
  __syncthreads();
  return flag != 0;
}
