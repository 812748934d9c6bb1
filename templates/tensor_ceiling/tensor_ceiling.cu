// Dense matrix products from shared memory and nothing else: what the tensor cores do at best.
//
// A block brings the operands to shared memory once. A group of four warps takes whole tiles in turn:
//   wgmma      64x256 sums over the group, both operands from shared memory
//   mma_sync   64x64 sums a warp, operands through ldmatrix
// Where the tensor cores have no e4m3 (before sm_89), fp16 stands in for it.
//
// Macros: DTYPE (Bf16, Fp16 or E4m3), WGMMA (1: wgmma, 0: mma_sync), COLUMNS (64, 128 or 256: of one wgmma),
// GROUPS (of a block), AHEAD (1: mma_sync loads the next fragments before it multiplies).
#include "templates/common/convert.cuh"
#include "templates/common/mma.cuh"
#include "templates/common/tma.cuh"
#include "templates/common/wgmma.cuh"
#include "templates/tensor_ceiling/tiles.cuh"

#if __CUDA_ARCH__ >= 890
using Operand = DTYPE;
#else
using Operand = Either<kIsSame<DTYPE, E4m3>, Fp16, DTYPE>;
#endif

constexpr int kGroupThreads = 4 * kWarpSize;
constexpr int kStepBytes = 32;  // of K, in one instruction
constexpr int kSteps = kPeriod * sizeof(Operand) / kStepBytes;

// A matrix in shared memory: atoms of `rows` rows of 128 bytes of K, in the 128-byte swizzle.
struct Matrix {
  static constexpr int kAtomSteps = 128 / kStepBytes;

  u32 address;
  int rows;

  static __device__ constexpr u32 bytes(int rows) { return rows * kPeriod * sizeof(Operand); }
  __device__ u32 atom(int step) const { return address + step / kAtomSteps * rows * 128; }
  // 16 bytes of a row: half a step.
  __device__ u32 half_step(int row, int step, int half) const {
    const int unit = step % kAtomSteps * 2 + half;
    return atom(step) + row * 128 + (unit ^ row % 8) * 16;
  }
};

template <typename T>
__device__ __forceinline__ void store_operand(u32 address, float value) {
  if constexpr (kIsSame<T, E4m3>) {
    u16 pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(address), "h"(pair) : "memory");
  } else {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(T::from_float(value).bits) : "memory");
  }
}

// All threads of the block.
__device__ void bring(const float* source, Matrix to) {
  for (int i = threadIdx.x; i < to.rows * kPeriod; i += blockDim.x) {
    const int row = i / kPeriod, byte = i % kPeriod * sizeof(Operand);
    store_operand<Operand>(to.half_step(row, byte / kStepBytes, byte / 16 % 2) + byte % 16, operand_of(source[i]));
  }
}

// Adds the four lanes that share a row of accumulators; every lane has the sum.
__device__ __forceinline__ float row_sum(float mine) {
  mine += __shfl_xor_sync(kWholeWarp, mine, 1);
  return mine + __shfl_xor_sync(kWholeWarp, mine, 2);
}

// Writes the sums of 16 rows over 64 columns, which the warp holds as accumulators of mma.sync 16x8.
__device__ __forceinline__ void write_sums(float* sums, const float (*sum)[4]) {
  float upper = 0, lower = 0;
#pragma unroll
  for (int j = 0; j < kSumColumns / 8; ++j) {
    upper += sum[j][0] + sum[j][1];
    lower += sum[j][2] + sum[j][3];
  }
  upper = row_sum(upper);
  lower = row_sum(lower);
  const int lane = threadIdx.x % kWarpSize;
  if (lane % 4 != 0) return;
  sums[lane / 4] = upper;
  sums[lane / 4 + 8] = lower;
}

#if WGMMA
__device__ __forceinline__ void multiply_tile(Matrix a, Matrix b, i32 periods, float* sums) {
  float sum[kColumns / 8][4];
  const u64 rows = WgmmaMatrix::rows(a.address), columns = WgmmaMatrix::rows(b.address);
  const auto descriptor_step = [](u32 bytes) { return static_cast<u64>(bytes >> 4); };
  wgmma_begin();
  for (i32 period = 0; period < periods; ++period) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const u32 within = step % Matrix::kAtomSteps * kStepBytes;
      const u64 of_a = rows + descriptor_step(Matrix{0, kRows}.atom(step) + within);
#pragma unroll
      for (int first = 0; first < kColumns; first += COLUMNS) {
        const u64 of_b = columns + descriptor_step(Matrix{0, kColumns}.atom(step) + within + first * 128);
        wgmma<Operand, COLUMNS, false, false>(sum + first / 8, of_a, of_b, step > 0 || period > 0);
      }
    }
  }
  wgmma_finish();
  wgmma_hold<kColumns / 8>(sum);
  const int warp = threadIdx.x / kWarpSize % 4;
#pragma unroll
  for (int quarter = 0; quarter < kColumns / kSumColumns; ++quarter)
    write_sums(sums + quarter * kRows + 16 * warp, sum + quarter * kSumColumns / 8);
}
#else

// sum += a (16x32 e4m3, row-major fragment) * b (32x8, column-major fragment).
__device__ __forceinline__ void mma_16832(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

constexpr int kRowTiles = kRows / 16, kColumnTiles = kSumColumns / 8;

// One step of K, of a warp.
struct Fragments {
  u32 a[kRowTiles][4];
  u32 b[kColumnTiles / 2][4];  // two neighbours each

  __device__ __forceinline__ void load(Matrix rows, Matrix columns, int first_column, int step) {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) ldmatrix(a[i], rows.half_step(16 * i + lane % 16, step, lane / 16));
#pragma unroll
    for (int j = 0; j < kColumnTiles / 2; ++j) {
      const int column = first_column + 16 * j + lane / 16 * 8 + lane % 8;
      ldmatrix(b[j], columns.half_step(column, step, lane / 8 % 2));
    }
  }
};

template <typename T>
__device__ __forceinline__ void multiply(float (&sum)[kRowTiles][kColumnTiles][4], const Fragments& of) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j) {
      const u32 b0 = of.b[j / 2][j % 2 * 2], b1 = of.b[j / 2][j % 2 * 2 + 1];
      if constexpr (kIsSame<T, E4m3>) {
        mma_16832(sum[i][j], of.a[i], b0, b1);
      } else {
        mma_16816<T>(sum[i][j], of.a[i], b0, b1);
      }
    }
  }
}

__device__ __forceinline__ void multiply_tile(Matrix a, Matrix b, i32 periods, float* sums) {
  const int warp = threadIdx.x / kWarpSize % 4;
  float sum[kRowTiles][kColumnTiles][4] = {};
  Fragments fragments[1 + AHEAD];
  if (AHEAD) fragments[0].load(a, b, warp * kSumColumns, 0);
#pragma unroll 1
  for (i32 period = 0; period < periods; ++period) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      fragments[AHEAD * ((step + 1) % 2)].load(a, b, warp * kSumColumns, (step + AHEAD) % kSteps);
      multiply<Operand>(sum, fragments[AHEAD * (step % 2)]);
    }
  }
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) write_sums(sums + warp * kRows + 16 * i, sum[i]);
}
#endif

// a[kSets][kRows][kPeriod], b[kColumns][kPeriod], sums[tiles][kColumns / kSumColumns][kRows].
extern "C" __global__ void __launch_bounds__(kGroupThreads* GROUPS)
    tensor_ceiling(const float* a, const float* b, float* sums, i64 tiles, i32 periods) {
  extern __shared__ __align__(1024) u8 operands[];
  const Matrix columns{shared_address(operands), kColumns};
  const u32 sets = columns.address + Matrix::bytes(kColumns);
  bring(b, columns);
  for (int set = 0; set < kSets; ++set) bring(a + set * kRows * kPeriod, {sets + set * Matrix::bytes(kRows), kRows});
#if WGMMA
  fence_async_proxy();
#endif
  __syncthreads();
  const i64 stride = i64(gridDim.x) * GROUPS;
  for (i64 tile = i64(blockIdx.x) * GROUPS + threadIdx.x / kGroupThreads; tile < tiles; tile += stride) {
    const Matrix rows{sets + static_cast<u32>(tile % kSets) * Matrix::bytes(kRows), kRows};
    multiply_tile(rows, columns, periods, sums + tile * kTileSums);
  }
}
