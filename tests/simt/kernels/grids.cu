// Small kernels for the emulator's own tests: blocks that wait for each other.
#include "templates/common/global_sync.cuh"
#include "templates/common/types.cuh"

// A barrier over all blocks of the grid, any number of times: the counter goes on.
__device__ __forceinline__ void grid_barrier(u32* counter) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const u32 before = add_release(counter, 1);
    wait_until_at_least(counter, before - before % gridDim.x + gridDim.x);
  }
  __syncthreads();
}

// Every block writes its value, then all read all, several rounds over: out[block] is the sum of rounds.
extern "C" __global__ void grid_rounds(u32* counter, u32* values, u32* out, i32 rounds) {
  u32 sum = 0;
  for (int round = 0; round < rounds; ++round) {
    if (threadIdx.x == blockDim.x - 1) values[blockIdx.x] = (round + 1) * (blockIdx.x + 1);
    grid_barrier(counter);
    for (int b = 0; b < gridDim.x; ++b) sum += values[b];
    grid_barrier(counter);
  }
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

// The sum of all blocks' numbers up to this block's, each passed on by a flag and by polling loads. The last block
// to end leaves counter and flags at zero.
extern "C" __global__ void look_back(u64* sums, u32* ended, u32* out) {
  if (threadIdx.x != 0) return;
  u64 sum = 0;
  if (blockIdx.x > 0) {
    while ((sum = load_acquire(&sums[blockIdx.x - 1])) == 0) {
    }
  }
  sum += blockIdx.x + 1;
  store_release(&sums[blockIdx.x], sum);
  out[blockIdx.x] = static_cast<u32>(sum);
  if (add_acquire_release(ended, 1) != gridDim.x - 1) return;
  for (int b = 0; b < gridDim.x; ++b) sums[b] = 0;
  *ended = 0;
}

// The second launch of a plan doubles what the first wrote, and zeroes its counter.
extern "C" __global__ void doubled(u32* out, u32* counter) {
  out[blockIdx.x] *= 2;
  if (blockIdx.x == 0) *counter = 0;
}
