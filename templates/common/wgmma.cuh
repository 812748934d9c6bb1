// Warpgroup matrix instructions: wgmma m64nNk16, and k32 of e4m3, with fp32 accumulators (sm_90a), by four warps
// that begin at a multiple of four.
//
// Accumulators of warp w lie as those of mma.sync 16x8 for rows 16w..16w+15: sum[j] is columns 8j..8j+7.
// They, and an A in registers, belong to the instructions from wgmma_begin until wgmma_finish. Shared memory
// that ordinary stores filled needs fence_async_proxy by the writer and a barrier before it is read here.
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/types.cuh"

// A matrix in shared memory. Strides count bytes; PTX ISA, "Matrix descriptor".
struct WgmmaMatrix {
  // K-major: rows of 128 or 64 swizzled bytes, one behind the other. The K of the next instruction lies 32 bytes
  // further.
  template <int kBytes = 128>
  static __device__ __forceinline__ u64 rows(u32 address) {
    static_assert(kBytes == 128 || kBytes == 64);
    return make(address, 0, 8 * kBytes, kBytes == 128 ? kSwizzle128 : kSwizzle64);
  }

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

  // The same matrix `bytes` further in shared memory, a multiple of 16: one addition, where a descriptor made of the
  // sum of both would be masked and shifted anew.
  static __device__ __forceinline__ u64 moved(u64 matrix, u32 bytes) {
    const u32 low = static_cast<u32>(matrix) + (bytes >> 4), high = static_cast<u32>(matrix >> 32);
    return static_cast<u64>(high) << 32 | low;
  }

 private:
  static constexpr u32 kNoSwizzle = 0, kSwizzle128 = 1, kSwizzle64 = 2;

  static __device__ __forceinline__ u64 make(u32 address, u32 leading, u32 stride, u32 swizzle) {
    const u32 low = (address & 0x3ffff) >> 4 | leading >> 4 << 16, high = stride >> 4 | swizzle << 30;
    return static_cast<u64>(high) << 32 | low;
  }
};

// The same address, of which the compiler knows nothing: descriptors that follow from it are computed here, and do not
// stay in uniform registers until they are needed elsewhere. wgmma needs four of these at a time.
__device__ __forceinline__ u32 wgmma_forget(u32 address) {
  asm volatile("" : "+r"(address));
  return address;
}

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
#define WGMMA_SUMS_48 WGMMA_SUMS_32, WGMMA_SUM(4), WGMMA_SUM(5)
#define WGMMA_SUMS_64 WGMMA_SUMS_32, WGMMA_SUM(4), WGMMA_SUM(5), WGMMA_SUM(6), WGMMA_SUM(7)
#define WGMMA_SUMS_128                                                                                   \
  WGMMA_SUMS_64, WGMMA_SUM(8), WGMMA_SUM(9), WGMMA_SUM(10), WGMMA_SUM(11), WGMMA_SUM(12), WGMMA_SUM(13), \
      WGMMA_SUM(14), WGMMA_SUM(15)
#define WGMMA_SUMS_256                                                                                         \
  WGMMA_SUMS_128, WGMMA_SUM(16), WGMMA_SUM(17), WGMMA_SUM(18), WGMMA_SUM(19), WGMMA_SUM(20), WGMMA_SUM(21),    \
      WGMMA_SUM(22), WGMMA_SUM(23), WGMMA_SUM(24), WGMMA_SUM(25), WGMMA_SUM(26), WGMMA_SUM(27), WGMMA_SUM(28), \
      WGMMA_SUM(29), WGMMA_SUM(30), WGMMA_SUM(31)
#define WGMMA_NAMES_8 "%0, %1, %2, %3"
#define WGMMA_NAMES_16 WGMMA_NAMES_8 ", %4, %5, %6, %7"
#define WGMMA_NAMES_32 WGMMA_NAMES_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_NAMES_48 WGMMA_NAMES_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_NAMES_64 WGMMA_NAMES_32 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"

#define WGMMA_NAMES_128                                                                \
  WGMMA_NAMES_64                                                                       \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_NAMES_256                                                                          \
  WGMMA_NAMES_128                                                                                \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "           \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// The operands after the sums count from %N/2 on.
#define WGMMA_TEXT(N, TYPE, A, B, ADD, TRANSPOSED)                                                                  \
  "{\n.reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE \
  " {" WGMMA_NAMES_##N "}, " A ", " B ", add, 1, 1, " TRANSPOSED ";\n}\n"

#define WGMMA_SHARED(N, TYPE, A, B, ADD, TA, TB)          \
  asm volatile(WGMMA_TEXT(N, TYPE, A, B, ADD, TA ", " TB) \
               : WGMMA_SUMS_##N                           \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kTransposedA), "n"(kTransposedB))

#define WGMMA_SHARED_OF(TYPE)                                                                \
  if constexpr (kColumns == 8) WGMMA_SHARED(8, TYPE, "%4", "%5", "%6", "%7", "%8");          \
  if constexpr (kColumns == 16) WGMMA_SHARED(16, TYPE, "%8", "%9", "%10", "%11", "%12");     \
  if constexpr (kColumns == 32) WGMMA_SHARED(32, TYPE, "%16", "%17", "%18", "%19", "%20");   \
  if constexpr (kColumns == 64) WGMMA_SHARED(64, TYPE, "%32", "%33", "%34", "%35", "%36");   \
  if constexpr (kColumns == 128) WGMMA_SHARED(128, TYPE, "%64", "%65", "%66", "%67", "%68"); \
  if constexpr (kColumns == 256) WGMMA_SHARED(256, TYPE, "%128", "%129", "%130", "%131", "%132")

// Both K-major: there is no transposed e4m3.
#define WGMMA_E4M3(N, A, B, ADD)                                                                        \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N \
               "k32.f32.e4m3.e4m3 {" WGMMA_NAMES_##N "}, " A ", " B ", add, 1, 1;\n}\n"                 \
               : WGMMA_SUMS_##N                                                                         \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)))

#define WGMMA_REGISTERS(N, TYPE, A, B, ADD, TB)   \
  asm volatile(WGMMA_TEXT(N, TYPE, A, B, ADD, TB) \
               : WGMMA_SUMS_##N                   \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)), "n"(kTransposedB))

template <typename Element>
constexpr bool kIsBf16 = false;
template <>
constexpr bool kIsBf16<Bf16> = true;

template <typename Element>
constexpr bool kIsE4m3 = false;
template <>
constexpr bool kIsE4m3<E4m3> = true;

// sum = a (64xK) * b (KxN), or sum += if `add`; K is 16, of e4m3 32. Transposed matrices are those whose K strides.
template <typename Element, int kColumns, bool kTransposedA, bool kTransposedB>
__device__ __forceinline__ void wgmma(float (*sum)[4], u64 a, u64 b, bool add) {
  static_assert(kColumns >= 8 && kColumns <= 256 && (kColumns & (kColumns - 1)) == 0);
  if constexpr (kIsE4m3<Element>) {
    static_assert(!kTransposedA && !kTransposedB);
    if constexpr (kColumns == 8) WGMMA_E4M3(8, "%4", "%5", "%6");
    if constexpr (kColumns == 16) WGMMA_E4M3(16, "%8", "%9", "%10");
    if constexpr (kColumns == 32) WGMMA_E4M3(32, "%16", "%17", "%18");
    if constexpr (kColumns == 64) WGMMA_E4M3(64, "%32", "%33", "%34");
    if constexpr (kColumns == 128) WGMMA_E4M3(128, "%64", "%65", "%66");
    if constexpr (kColumns == 256) WGMMA_E4M3(256, "%128", "%129", "%130");
  } else if constexpr (kIsBf16<Element>) {
    WGMMA_SHARED_OF("bf16");
  } else {
    WGMMA_SHARED_OF("f16");
  }
}

#define WGMMA_REGISTERS_OF(TYPE)                                                                          \
  if constexpr (kColumns == 16) WGMMA_REGISTERS(16, TYPE, "{%8, %9, %10, %11}", "%12", "%13", "%14");     \
  if constexpr (kColumns == 32) WGMMA_REGISTERS(32, TYPE, "{%16, %17, %18, %19}", "%20", "%21", "%22");   \
  if constexpr (kColumns == 48) WGMMA_REGISTERS(48, TYPE, "{%24, %25, %26, %27}", "%28", "%29", "%30");   \
  if constexpr (kColumns == 64) WGMMA_REGISTERS(64, TYPE, "{%32, %33, %34, %35}", "%36", "%37", "%38");   \
  if constexpr (kColumns == 128) WGMMA_REGISTERS(128, TYPE, "{%64, %65, %66, %67}", "%68", "%69", "%70"); \
  if constexpr (kColumns == 256) WGMMA_REGISTERS(256, TYPE, "{%128, %129, %130, %131}", "%132", "%133", "%134")

// sum += a (64x16, a fragment as mma.sync's in every warp) * b (16xkColumns).
template <typename Element, int kColumns, bool kTransposedB>
__device__ __forceinline__ void wgmma_registers(float (*sum)[4], const u32 (&a)[4], u64 b) {
  static_assert(kColumns == 48 || (kColumns >= 16 && kColumns <= 256 && (kColumns & (kColumns - 1)) == 0));
  static_assert(sizeof(Element) == 2, "16-bit elements; e4m3 has another K and other rules");
  constexpr bool add = true;
  if constexpr (kIsBf16<Element>) {
    WGMMA_REGISTERS_OF("bf16");
  } else {
    WGMMA_REGISTERS_OF("f16");
  }
}

#undef WGMMA_SUM
#undef WGMMA_SUMS_8
#undef WGMMA_SUMS_16
#undef WGMMA_SUMS_32
#undef WGMMA_SUMS_48
#undef WGMMA_SUMS_64
#undef WGMMA_SUMS_128
#undef WGMMA_SUMS_256
#undef WGMMA_NAMES_8
#undef WGMMA_NAMES_16
#undef WGMMA_NAMES_32
#undef WGMMA_NAMES_48
#undef WGMMA_NAMES_64
#undef WGMMA_NAMES_128
#undef WGMMA_NAMES_256
#undef WGMMA_TEXT
#undef WGMMA_E4M3
#undef WGMMA_SHARED
#undef WGMMA_SHARED_OF
#undef WGMMA_REGISTERS
#undef WGMMA_REGISTERS_OF
