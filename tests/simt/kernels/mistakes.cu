// Kernels with mistakes for the emulator's own tests.
#include "templates/common/dependent_launch.cuh"
#include "templates/common/global_sync.cuh"
#include "templates/common/l2_policy.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/types.cuh"

// Half of the block waits for a flag that nobody sets, the other half for the first.
extern "C" __global__ void deadlock(const u32* flag) {
  if (threadIdx.x < 48) wait_until_equal(flag, 5);
  __syncthreads();
}

extern "C" __global__ void spins(const u32* flag) {
  while (load_acquire(flag) != 5) {
  }
}

extern "C" __global__ void spins_silently(u32* flag) {
  volatile u32* changing = flag;
  while (*changing != 5) {
  }
}

extern "C" __global__ void writes_past(u32* out, i64 position) {
  if (threadIdx.x == 3 && blockIdx.x == 1) out[position] = 1;
}

extern "C" __global__ void writes_shared(i64 position) {
  if (threadIdx.x == 2) dynamic_shared()[position] = 1;
}

extern "C" __global__ void leaves_early(u32* out) {
  if (threadIdx.x == 20) return;
  out[threadIdx.x] = __ballot_sync(kWholeWarp, 1);
}

extern "C" __global__ void disagrees(u32* out) {
  out[threadIdx.x] = threadIdx.x == 9 ? __any_sync(kWholeWarp, 1) : __ballot_sync(kWholeWarp, 1);
}

extern "C" __global__ void unnamed(u32* out) { out[threadIdx.x] = __ballot_sync(0xfu, 1); }

extern "C" __global__ void traps(u32* out) {
  if (threadIdx.x == 6) __trap();
}

extern "C" __global__ void misaligned(u8* out, i32 offset) { *reinterpret_cast<u64*>(out + offset) = 1; }

extern "C" __global__ void misaligned_vector(u8* out, i32 offset) {
  *reinterpret_cast<uint4*>(out + offset) = make_uint4(1, 2, 3, 4);
}

extern "C" __global__ void past_local_array(u32* out, i32 position) {
  u32 local[4] = {1, 2, 3, 4};
  local[position] = 7;
  out[0] = local[threadIdx.x % 4];
}

// One warp does not wait, and is in no barrier with one that has.
extern "C" __global__ void writes_early(u32* out) {
  if (threadIdx.x < 32) wait_for_predecessor();
  if (threadIdx.x == 40) out[7] = 1;
}

extern "C" __global__ void reads_early(u32* out) {
  const u32 value = out[threadIdx.x];
  wait_for_predecessor();
  out[threadIdx.x] = value + 1;
}

// One thread waits for all: the others are behind a barrier with it.
extern "C" __global__ void writes_in_time(u32* out) {
  if (threadIdx.x == 5) wait_for_predecessor();
  __syncthreads();
  out[threadIdx.x] = 1;
}

extern "C" __global__ void never_waits(u32* out) {
  if (blockIdx.x == 0) wait_for_predecessor();
}

// A thread reads what its neighbour writes, without a barrier between.
extern "C" __global__ void races(u32* out) {
  u32* shared = reinterpret_cast<u32*>(dynamic_shared());
  shared[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = shared[(threadIdx.x + 31) % 32];
}

extern "C" __global__ void deep(u32* out, i32 levels) {
  u32 local[4096];
  for (int i = 0; i < 4096; ++i) local[i] = i * levels;
  atomicAdd(&local[levels], 1);
  u32 sum = 0;
  for (int i = 0; i < 4096; ++i) sum += local[i];
  out[0] = sum;
}
