// Small kernels for the emulator's own tests: mbarriers, copies by the copy engine and wgmma, right, and with one
// mistake each.
#include "templates/common/bulk_copy.cuh"
#include "templates/common/cp_async.cuh"
#include "templates/common/dependent_launch.cuh"
#include "templates/common/mbarrier.cuh"
#include "templates/common/multicast.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/tma.cuh"
#include "templates/common/wgmma.cuh"

// Of copies.
constexpr i32 kSound = 0, kNoWait = 1, kWrongParity = 2, kTooFewBytes = 3, kTooManyBytes = 4, kExtraArrival = 5,
              kNoInit = 6, kOverwritten = 7, kMisaligned = 8, kTwice = 9, kNeverLands = 10, kEarly = 11,
              kInitTwice = 12, kOtherBlock = 13, kPastShared = 14;

// out = `bytes` bytes (a multiple of 16 below 2048) of in, by way of shared memory, where the barrier is at byte 2048.
extern "C" __global__ void bulk(const u8* in, u8* out, i32 bytes, i32 mistake) {
  u8* const shared = dynamic_shared();
  const u32 barrier = shared_address(shared + 2048);
  if (mistake == kEarly && threadIdx.x == 0) {
    mbarrier_init(barrier, 1);
    bulk_load(shared_address(shared), in, bytes, barrier, 0);
  }
  wait_for_predecessor();
  if (threadIdx.x == 0) {
    if (mistake != kNoInit) mbarrier_init(barrier, 1);
    if (mistake == kInitTwice) mbarrier_init(barrier, 1);
    mbarrier_init_fence();
    if (mistake == kOverwritten) *reinterpret_cast<u64*>(shared + 2048) = 1;
    mbarrier_arrive_expect(barrier, mistake == kTooFewBytes    ? bytes + 16
                                    : mistake == kTooManyBytes ? bytes - 16
                                                               : bytes);
    if (mistake == kExtraArrival) mbarrier_arrive(barrier);
    bulk_load(shared_address(shared) + (mistake == kMisaligned   ? 8
                                        : mistake == kPastShared ? 2048
                                                                 : 0),
              in, bytes, mistake == kOtherBlock ? cluster_address(barrier, 1) : barrier, 0);
    if (mistake == kTwice) bulk_load(shared_address(shared) + 16, in, bytes, barrier, 0);
  }
  __syncthreads();
  if (mistake != kNoWait && mistake != kNeverLands) mbarrier_wait(barrier, mistake == kWrongParity);
  for (i32 i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = shared[i];
  if (mistake == kNoWait) mbarrier_wait(barrier, 0);
}

// The box at (c0, ..., c4) as it lies in shared memory.
extern "C" __global__ void box(const __grid_constant__ TensorMap map, u8* out, i32 bytes, i32 c0, i32 c1, i32 c2,
                               i32 c3, i32 c4) {
  u8* const shared = dynamic_shared();
  const u32 barrier = shared_address(shared + bytes);
  if (threadIdx.x == 0) {
    mbarrier_init(barrier, 1);
    mbarrier_arrive_expect(barrier, bytes);
    tma_load_5d(shared_address(shared), map, barrier, 0, c0, c1, c2, c3, c4);
  }
  __syncthreads();
  mbarrier_wait(barrier, 0);
  for (i32 i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = shared[i];
}

// Each block of a cluster brings its share of a row of 64 bytes a block to all blocks, and releases what it has read to
// all; round by round. out[block][round]: the row, of which each round begins 64 * blocks bytes further in `in`.
extern "C" __global__ void share(const __grid_constant__ TensorMap map, u8* out, i32 rounds, i32 mistake) {
  u8* const shared = dynamic_shared();
  const u32 blocks = cluster_size(), rank = cluster_rank(), bytes = 128 * blocks;
  const u32 full = shared_address(shared + bytes), empty = full + 8;
  if (threadIdx.x == 0) {
    mbarrier_init(full, 1);
    mbarrier_init(empty, blocks);
    mbarrier_init_fence();
  }
  cluster_arrive_relaxed();
  cluster_wait();
  for (i32 round = 0; round < rounds; ++round) {
    if (threadIdx.x == 0) {
      if (mistake != kNoWait) mbarrier_wait(empty, (round & 1) ^ 1);
      mbarrier_arrive_expect(full, bytes);
      tma_multicast_5d(shared_address(shared) + 128 * rank, map, full, (1 << blocks) - 1, 0, 0, rank, round, 0, 0);
    }
    mbarrier_wait(full, round & 1);
    for (i32 i = threadIdx.x; i < bytes; i += blockDim.x) out[(blockIdx.x * rounds + round) * bytes + i] = shared[i];
    __syncthreads();
    if (threadIdx.x < blocks) mbarrier_arrive_block(empty, threadIdx.x);
  }
  if (mistake == kNeverLands) return;  // and others still arrive here
  cluster_arrive();
  cluster_wait();
}

// out[i] = in[i], 16 bytes a thread, which another thread reads once all copies have arrived.
extern "C" __global__ void arrive_behind_copies(const u8* in, uint4* out, i32 mistake) {
  u8* const shared = dynamic_shared();
  const u32 barrier = shared_address(shared + 16 * blockDim.x + 16);
  if (threadIdx.x == 0) mbarrier_init(barrier, blockDim.x);
  __syncthreads();
  // Such that the emulator makes no copy at once.
  cp_async_16(shared_address(shared) + 16 * threadIdx.x + 16, in + 16 * threadIdx.x, true, 0);
  if (mistake == kSound || threadIdx.x % 2 == 0) {
    cp_async_arrive(barrier);
  } else {
    mbarrier_arrive(barrier);  // for copies that may still be under way
  }
  mbarrier_wait(barrier, 0);
  out[threadIdx.x] = reinterpret_cast<uint4*>(shared)[(threadIdx.x ^ 1) + 1];
}

// Of products.
constexpr i32 kNoBegin = 20, kNoProductWait = 21, kOneWarpLess = 22, kOneLaneLess = 23, kOtherOperands = 24,
              kReleasedEarly = 25, kNeverAwaited = 26, kUnaligned = 27, kChangesSums = 28;

#ifndef ELEMENT
#define ELEMENT Bf16
#endif

// sum += 2 * a (64 x 16) * b (16 x 64) of 16-bit elements, which lie in shared memory as they do in memory: in swizzled
// rows of 128 bytes, of K, or transposed of M and N.
template <bool kTransposedA, bool kTransposedB>
__device__ __forceinline__ void multiply_once(float (&sum)[8][4], u64 a, u64 b, i32 mistake) {
  if (mistake != kNoBegin) wgmma_begin();
  wgmma<ELEMENT, 64, kTransposedA, kTransposedB>(sum, a, b, false);
  if (mistake != kOneLaneLess || threadIdx.x != 3) wgmma<ELEMENT, 64, kTransposedA, kTransposedB>(sum, a, b, true);
  wgmma_commit();
}

extern "C" __global__ void product(const uint4* a, const uint4* b, float* out, i32 a_units, i32 b_units, i32 transposed,
                                   i32 mistake) {
  u8* const shared = dynamic_shared();
  uint4* const units = reinterpret_cast<uint4*>(shared);
  for (i32 i = threadIdx.x; i < a_units; i += blockDim.x) units[i] = a[i];
  for (i32 i = threadIdx.x; i < b_units; i += blockDim.x) units[a_units + i] = b[i];
  fence_async_proxy();
  __syncthreads();
  const u32 a_at = shared_address(shared) + (mistake == kUnaligned ? 128 : 0);
  const u32 b_at = shared_address(shared) + 16 * a_units + (mistake == kOtherOperands ? threadIdx.x / 32 * 1024 : 0);
  float sum[8][4] = {};
  if (mistake == kOneWarpLess && threadIdx.x >= 96) return;
  if (transposed) {
    multiply_once<true, true>(sum, WgmmaMatrix::columns(a_at, 0), WgmmaMatrix::columns(b_at, 0), mistake);
  } else {
    multiply_once<false, false>(sum, WgmmaMatrix::rows(a_at), WgmmaMatrix::rows(b_at), mistake);
  }
  if (mistake == kReleasedEarly) {
    __syncthreads();
    units[threadIdx.x] = make_uint4(0, 0, 0, 0);
    __syncthreads();
  }
  if (mistake == kNeverAwaited) return;
  if (mistake == kChangesSums && threadIdx.x == 70) sum[1][1] = 0;
  if (mistake != kNoProductWait) wgmma_wait<0>();
  wgmma_hold<8>(sum);
  for (int j = 0; j < 8; ++j) {
    for (int i = 0; i < 4; ++i) {
      const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 * 8;
      out[row * 64 + 8 * j + threadIdx.x % 4 * 2 + i % 2] = sum[j][i];
    }
  }
  if (mistake == kNoProductWait) wgmma_wait<0>();
}

// The same with A in registers, and B transposed; A is a 64x16 matrix row by row.
extern "C" __global__ void product_of_registers(const u32* a, const uint4* b, float* out, i32 b_units, i32 mistake) {
  u8* const shared = dynamic_shared();
  uint4* const units = reinterpret_cast<uint4*>(shared);
  for (i32 i = threadIdx.x; i < b_units; i += blockDim.x) units[i] = b[i];
  fence_async_proxy();
  __syncthreads();
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
  u32 words[4];
  for (int i = 0; i < 4; ++i) words[i] = a[(row + i % 2 * 8) * 8 + i / 2 * 4 + lane % 4];
  float sum[8][4] = {};
  wgmma_begin();
  wgmma_registers<ELEMENT, 64, !kIsSame<ELEMENT, E4m3>>(sum, words, WgmmaMatrix::columns(shared_address(shared), 0));
  wgmma_commit();
  if (mistake == kReleasedEarly) words[2] = 0;
  wgmma_wait<0>();
  for (int j = 0; j < 8; ++j) {
    for (int i = 0; i < 4; ++i) out[(row + i / 2 * 8) * 64 + 8 * j + lane % 4 * 2 + i % 2] = sum[j][i];
  }
}
