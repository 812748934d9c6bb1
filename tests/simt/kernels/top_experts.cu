// For the emulator's own tests: the eight largest of 256 scores for every token, as a router's kernel finds them. A
// warp takes tokens in turn; counts are collected in shared memory, then over the grid.
#include "templates/common/global_sync.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/types.cuh"

constexpr int kExperts = 256, kEach = kExperts / kWarpSize, kTop = 8;

__device__ __forceinline__ u64 largest_across(u64 key) {
  for (int distance = 16; distance > 0; distance /= 2) key = max(key, __shfl_xor_sync(kWholeWarp, key, distance));
  return key;
}

extern "C" __global__ void __launch_bounds__(256)
    top_experts(const u32* scores, i32* chosen, u32* counts, u32* arrived, i32 tokens) {
  u32* mine = reinterpret_cast<u32*>(dynamic_shared());
  mine[threadIdx.x] = 0;
  __syncthreads();
  const int warps = gridDim.x * blockDim.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  for (int token = (blockIdx.x * blockDim.x + threadIdx.x) / kWarpSize; token < tokens; token += warps) {
    u64 keys[kEach];
    for (int i = 0; i < kEach; ++i) {
      const u32 expert = i * kWarpSize + lane;
      keys[i] = u64{scores[token * kExperts + expert]} << 32 | (kExperts - 1 - expert);
    }
    for (int k = 0; k < kTop; ++k) {
      u64 best = 0;
      for (int i = 0; i < kEach; ++i) best = max(best, keys[i]);
      best = largest_across(best);
      for (int i = 0; i < kEach; ++i) keys[i] = keys[i] == best ? 0 : keys[i];
      const i32 expert = kExperts - 1 - static_cast<i32>(best & 0xffffffffu);
      if (lane == k) {
        chosen[token * kTop + k] = expert;
        atomicAdd(&mine[expert], 1);
      }
    }
  }
  __syncthreads();
  atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (add_acquire_release(arrived, 1) == gridDim.x - 1) *arrived = 0;
}
