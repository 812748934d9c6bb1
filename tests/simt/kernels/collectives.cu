// Small kernels for the emulator's own tests: barriers and the collectives of a warp.
#include "templates/common/barrier.cuh"
#include "templates/common/reduce.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/types.cuh"

// out[block] = the sum of in over the block; every warp's sum travels through shared memory.
extern "C" __global__ void __launch_bounds__(1024) block_sum(const float* in, float* out) {
  float* sums = reinterpret_cast<float*>(dynamic_shared());
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const float sum = sum_across<kWarpSize>(in[blockIdx.x * blockDim.x + threadIdx.x]);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  if (warp > 0) return;
  const float mine = lane < blockDim.x / kWarpSize ? sums[lane] : 0.0f;
  const float all = sum_across<kWarpSize>(mine);
  if (lane == 0) out[blockIdx.x] = all;
}

// What each collective gives to each lane of a warp, with masks of a half and of every third lane.
extern "C" __global__ void shuffles(u32* out) {
  const u32 lane = threadIdx.x;
  u32* mine = out + lane * 16;
  mine[0] = __shfl_sync(kWholeWarp, lane * 10, 7);
  mine[1] = __shfl_xor_sync(kWholeWarp, lane * 10, 5);
  mine[2] = __shfl_up_sync(kWholeWarp, lane * 10, 3);
  mine[3] = __shfl_down_sync(kWholeWarp, lane * 10, 3, 8);
  if (lane < 16) {
    mine[4] = __shfl_xor_sync(0x0000ffffu, lane, 8);
    mine[5] = __reduce_add_sync(0x0000ffffu, lane);
  } else {
    mine[4] = __shfl_xor_sync(0xffff0000u, lane, 4);
    mine[5] = __reduce_max_sync(0xffff0000u, lane);
  }
  const u32 thirds = 0x49249249u << (lane % 3);
  if (lane % 3 != 2) mine[6] = __ballot_sync(thirds, lane % 2);
  mine[7] = __match_any_sync(kWholeWarp, lane / 5);
  mine[8] = __any_sync(kWholeWarp, lane == 31);
  mine[9] = __all_sync(kWholeWarp, lane != 31);
  mine[10] = static_cast<u32>(__shfl_sync(kWholeWarp, 1ull << 40 | lane, 9) >> 32);
  mine[11] = __float_as_uint(__shfl_down_sync(kWholeWarp, float(lane), 1));
  mine[12] = __syncthreads_count(lane < 5);
  mine[13] = __syncthreads_or(lane == 40);
  mine[14] = __reduce_min_sync(kWholeWarp, lane + 3);
  mine[15] = __reduce_or_sync(kWholeWarp, 1u << lane);
}

// counts[v] += how often v is in `in`, by way of shared memory.
extern "C" __global__ void histogram(const i32* in, u32* counts, i32 elements, i32 values) {
  u32* mine = reinterpret_cast<u32*>(dynamic_shared());
  for (int v = threadIdx.x; v < values; v += blockDim.x) mine[v] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += gridDim.x * blockDim.x)
    atomicAdd(&mine[in[i]], 1);
  __syncthreads();
  for (int v = threadIdx.x; v < values; v += blockDim.x) atomicAdd(&counts[v], mine[v]);
}

__shared__ u32 block_total;

// Static shared memory is each block's own: total[block] = the sum of its threads' numbers times block + 1.
extern "C" __global__ void static_shared(u32* total, u32* gate) {
  if (threadIdx.x == 0) block_total = 0;
  __syncthreads();
  atomicAdd(&block_total, threadIdx.x * (blockIdx.x + 1));
  atomicAdd(gate, 1);
  while (atomicAdd(gate, 0) < gridDim.x * blockDim.x) {  // all blocks have added by now
  }
  __syncthreads();
  if (threadIdx.x == 0) total[blockIdx.x] = block_total;
}

// Two halves of a block meet at barriers of their own, the second half as producer: it arrives and goes on.
extern "C" __global__ void named_barriers(u32* out) {
  volatile u32* words = reinterpret_cast<u32*>(dynamic_shared());
  const u32 half = blockDim.x / 2, at = threadIdx.x % half;
  if (threadIdx.x >= half) {
    words[at] = at + 1;
    named_barrier_arrive(1, blockDim.x);
  } else {
    named_barrier_sync(1, blockDim.x);
    out[at] = words[half - 1 - at];
    const bool any = named_barrier_any(2, half, at == 5), none = named_barrier_any(2, half, false);
    out[half + at] = any + 2 * none;
  }
}
