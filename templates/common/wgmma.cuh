// Warpgroup matrix instructions: wgmma m64nNk16 with fp32 accumulators (sm_90a), by four warps that begin at
// a multiple of four.
//
// Accumulators of warp w lie as those of mma.sync 16x8 for rows 16w..16w+15: sum[j] is columns 8j..8j+7.
// They, and an A in registers, belong to the instructions from wgmma_begin until wgmma_finish. Shared memory
// that ordinary stores filled needs fence_async_proxy by the writer and a barrier before it is read here.
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/types.cuh"

// A matrix in shared memory. Strides count bytes; PTX ISA, "Matrix descriptor".
struct WgmmaMatrix {
  // K-major: rows of 128 swizzled bytes, 8 rows in 1024 bytes. The next 16 of K lie 32 bytes further.
  static __device__ __forceinline__ u64 rows(u32 address) { return make(address, 0, 1024, kSwizzle128); }

  // Transposed: 64 neighbours of M or N in 128 swizzled bytes, 8 of K in 1024 bytes. The next 64 of M or N
  // lie `stride` bytes further.
  static __device__ __forceinline__ u64 columns(u32 address, u32 stride) {
    return make(address, stride, 1024, kSwizzle128);
  }

  // Transposed, not swizzled: 8 neighbours of M or N in 16 bytes, 8 of K in 128 bytes. The next 8 of M or N
  // lie `stride` bytes further.
  static __device__ __forceinline__ u64 narrow_columns(u32 address, u32 stride) {
    return make(address, 128, stride, kNoSwizzle);
  }

 private:
  static constexpr u32 kNoSwizzle = 0, kSwizzle128 = 1;

  static __device__ __forceinline__ u64 make(u32 address, u32 leading, u32 stride, u32 swizzle) {
    const u32 low = (address & 0x3ffff) >> 4 | leading >> 4 << 16, high = stride >> 4 | swizzle << 30;
    return static_cast<u64>(high) << 32 | low;
  }
};

// Before the first instruction of a batch.
__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Waits for all instructions of this warp since wgmma_begin.
__device__ __forceinline__ void wgmma_finish() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// Keeps the compiler from moving uses of accumulators across this point.
template <int kCount>
__device__ __forceinline__ void wgmma_hold(float (*sum)[4]) {
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(sum[j][i])::"memory");
  }
}

#define WGMMA_SUM(j) "+f"(sum[j][0]), "+f"(sum[j][1]), "+f"(sum[j][2]), "+f"(sum[j][3])
#define WGMMA_SUMS_8 WGMMA_SUM(0)
#define WGMMA_SUMS_16 WGMMA_SUMS_8, WGMMA_SUM(1)
#define WGMMA_SUMS_32 WGMMA_SUMS_16, WGMMA_SUM(2), WGMMA_SUM(3)
#define WGMMA_SUMS_64 WGMMA_SUMS_32, WGMMA_SUM(4), WGMMA_SUM(5), WGMMA_SUM(6), WGMMA_SUM(7)
#define WGMMA_NAMES_8 "%0, %1, %2, %3"
#define WGMMA_NAMES_16 WGMMA_NAMES_8 ", %4, %5, %6, %7"
#define WGMMA_NAMES_32 WGMMA_NAMES_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_NAMES_64 \
  WGMMA_NAMES_32 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"

// The operands after the sums count from %N/2 on.
#define WGMMA_TEXT(N, TYPE, A, B, ADD, TRANSPOSED)                                                         \
  "{\n.reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE \
  "." TYPE " {" WGMMA_NAMES_##N "}, " A ", " B ", add, 1, 1, " TRANSPOSED ";\n}\n"

#define WGMMA_SHARED(N, TYPE, A, B, ADD, TA, TB)          \
  asm volatile(WGMMA_TEXT(N, TYPE, A, B, ADD, TA ", " TB) \
               : WGMMA_SUMS_##N                           \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kTransposedA), "n"(kTransposedB))

#define WGMMA_SHARED_OF(TYPE)                                                              \
  if constexpr (kColumns == 8) WGMMA_SHARED(8, TYPE, "%4", "%5", "%6", "%7", "%8");        \
  if constexpr (kColumns == 16) WGMMA_SHARED(16, TYPE, "%8", "%9", "%10", "%11", "%12");   \
  if constexpr (kColumns == 32) WGMMA_SHARED(32, TYPE, "%16", "%17", "%18", "%19", "%20"); \
  if constexpr (kColumns == 64) WGMMA_SHARED(64, TYPE, "%32", "%33", "%34", "%35", "%36")

#define WGMMA_REGISTERS(N, TYPE, A, B, ADD, TB)                                                  \
  asm volatile(WGMMA_TEXT(N, TYPE, A, B, ADD, TB)                                                \
               : WGMMA_SUMS_##N                                                                  \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)), \
                 "n"(kTransposedB))

template <typename Element>
constexpr bool kIsBf16 = false;
template <>
constexpr bool kIsBf16<Bf16> = true;

// sum = a (64x16) * b (16xN), or sum += where `add`. Transposed matrices are those whose K strides.
template <typename Element, int kColumns, bool kTransposedA, bool kTransposedB>
__device__ __forceinline__ void wgmma(float (*sum)[4], u64 a, u64 b, bool add) {
  static_assert(kColumns == 8 || kColumns == 16 || kColumns == 32 || kColumns == 64);
  if constexpr (kIsBf16<Element>) {
    WGMMA_SHARED_OF("bf16");
  } else {
    WGMMA_SHARED_OF("f16");
  }
}

// sum += a (64x16, a fragment as mma.sync's in every warp) * b (16x64, transposed).
template <typename Element>
__device__ __forceinline__ void wgmma_64(float (*sum)[4], const u32 (&a)[4], u64 b) {
  constexpr bool add = true, kTransposedB = true;
  if constexpr (kIsBf16<Element>) {
    WGMMA_REGISTERS(64, "bf16", "{%32, %33, %34, %35}", "%36", "%37", "%38");
  } else {
    WGMMA_REGISTERS(64, "f16", "{%32, %33, %34, %35}", "%36", "%37", "%38");
  }
}

#undef WGMMA_SUM
#undef WGMMA_SUMS_8
#undef WGMMA_SUMS_16
#undef WGMMA_SUMS_32
#undef WGMMA_SUMS_64
#undef WGMMA_NAMES_8
#undef WGMMA_NAMES_16
#undef WGMMA_NAMES_32
#undef WGMMA_NAMES_64
#undef WGMMA_TEXT
#undef WGMMA_SHARED
#undef WGMMA_SHARED_OF
#undef WGMMA_REGISTERS
