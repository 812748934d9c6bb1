// Warpgroup matrix instructions: wgmma m64nNk16, and k32 of e4m3, with fp32 accumulators (sm_90a), N 8 or a multiple of
// 16 up to 256, by four warps that begin at a multiple of four. They are issued in groups that run beside what a
// warpgroup does next.
//
// wgmma_begin comes before the first instruction of a group, wgmma_commit after its last, wgmma_wait<n> returns when
// all but the last n groups have ended; then wgmma_hold on their accumulators. Until then nothing may touch those
// accumulators, an A in registers, or the shared memory that is read. Accumulators of warp w lie as those of mma.sync
// 16x8 for rows 16w..16w+15: sum[j] is columns 8j..8j+7. Shared memory that ordinary stores filled needs
// fence_async_proxy by the writer and a barrier before it is read here.
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

__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Waits for all instructions of this warp since wgmma_begin.
__device__ __forceinline__ void wgmma_finish() {
  wgmma_commit();
  wgmma_wait<0>();
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

// The accumulators of a product of N columns: as operands of asm, and their numbers there.
#define WGMMA_SUM(j) "+f"(sum[j][0]), "+f"(sum[j][1]), "+f"(sum[j][2]), "+f"(sum[j][3])
#define WGMMA_SUMS_8 WGMMA_SUM(0)
#define WGMMA_SUMS_16 WGMMA_SUMS_8, WGMMA_SUM(1)
#define WGMMA_SUMS_32 WGMMA_SUMS_16, WGMMA_SUM(2), WGMMA_SUM(3)
#define WGMMA_SUMS_48 WGMMA_SUMS_32, WGMMA_SUM(4), WGMMA_SUM(5)
#define WGMMA_SUMS_64 WGMMA_SUMS_48, WGMMA_SUM(6), WGMMA_SUM(7)
#define WGMMA_SUMS_80 WGMMA_SUMS_64, WGMMA_SUM(8), WGMMA_SUM(9)
#define WGMMA_SUMS_96 WGMMA_SUMS_80, WGMMA_SUM(10), WGMMA_SUM(11)
#define WGMMA_SUMS_112 WGMMA_SUMS_96, WGMMA_SUM(12), WGMMA_SUM(13)
#define WGMMA_SUMS_128 WGMMA_SUMS_112, WGMMA_SUM(14), WGMMA_SUM(15)
#define WGMMA_SUMS_144 WGMMA_SUMS_128, WGMMA_SUM(16), WGMMA_SUM(17)
#define WGMMA_SUMS_160 WGMMA_SUMS_144, WGMMA_SUM(18), WGMMA_SUM(19)
#define WGMMA_SUMS_176 WGMMA_SUMS_160, WGMMA_SUM(20), WGMMA_SUM(21)
#define WGMMA_SUMS_192 WGMMA_SUMS_176, WGMMA_SUM(22), WGMMA_SUM(23)
#define WGMMA_SUMS_208 WGMMA_SUMS_192, WGMMA_SUM(24), WGMMA_SUM(25)
#define WGMMA_SUMS_224 WGMMA_SUMS_208, WGMMA_SUM(26), WGMMA_SUM(27)
#define WGMMA_SUMS_240 WGMMA_SUMS_224, WGMMA_SUM(28), WGMMA_SUM(29)
#define WGMMA_SUMS_256 WGMMA_SUMS_240, WGMMA_SUM(30), WGMMA_SUM(31)
#define WGMMA_NAMES_8 "%0, %1, %2, %3"
#define WGMMA_NAMES_16 WGMMA_NAMES_8 ", %4, %5, %6, %7"
#define WGMMA_NAMES_32 WGMMA_NAMES_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_NAMES_48 WGMMA_NAMES_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_NAMES_64 WGMMA_NAMES_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_NAMES_80 WGMMA_NAMES_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_NAMES_96 WGMMA_NAMES_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_NAMES_112 WGMMA_NAMES_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_NAMES_128 WGMMA_NAMES_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_NAMES_144 WGMMA_NAMES_128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_NAMES_160 WGMMA_NAMES_144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_NAMES_176 WGMMA_NAMES_160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_NAMES_192 WGMMA_NAMES_176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_NAMES_208 WGMMA_NAMES_192 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_NAMES_224 WGMMA_NAMES_208 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_NAMES_240 WGMMA_NAMES_224 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_NAMES_256 WGMMA_NAMES_240 ", %120, %121, %122, %123, %124, %125, %126, %127"

// INSTRUCTION for the one N that is kColumns. The operands behind the sums count from %N/2 on.
#define WGMMA_OF_COLUMNS(INSTRUCTION, ...)                                                                          \
  if constexpr (kColumns == 8) INSTRUCTION(8, __VA_ARGS__, "%4", "%5", "%6", "%7", "%8", "%9", "%10");              \
  if constexpr (kColumns == 16) INSTRUCTION(16, __VA_ARGS__, "%8", "%9", "%10", "%11", "%12", "%13", "%14");        \
  if constexpr (kColumns == 32) INSTRUCTION(32, __VA_ARGS__, "%16", "%17", "%18", "%19", "%20", "%21", "%22");      \
  if constexpr (kColumns == 48) INSTRUCTION(48, __VA_ARGS__, "%24", "%25", "%26", "%27", "%28", "%29", "%30");      \
  if constexpr (kColumns == 64) INSTRUCTION(64, __VA_ARGS__, "%32", "%33", "%34", "%35", "%36", "%37", "%38");      \
  if constexpr (kColumns == 80) INSTRUCTION(80, __VA_ARGS__, "%40", "%41", "%42", "%43", "%44", "%45", "%46");      \
  if constexpr (kColumns == 96) INSTRUCTION(96, __VA_ARGS__, "%48", "%49", "%50", "%51", "%52", "%53", "%54");      \
  if constexpr (kColumns == 112) INSTRUCTION(112, __VA_ARGS__, "%56", "%57", "%58", "%59", "%60", "%61", "%62");    \
  if constexpr (kColumns == 128) INSTRUCTION(128, __VA_ARGS__, "%64", "%65", "%66", "%67", "%68", "%69", "%70");    \
  if constexpr (kColumns == 144) INSTRUCTION(144, __VA_ARGS__, "%72", "%73", "%74", "%75", "%76", "%77", "%78");    \
  if constexpr (kColumns == 160) INSTRUCTION(160, __VA_ARGS__, "%80", "%81", "%82", "%83", "%84", "%85", "%86");    \
  if constexpr (kColumns == 176) INSTRUCTION(176, __VA_ARGS__, "%88", "%89", "%90", "%91", "%92", "%93", "%94");    \
  if constexpr (kColumns == 192) INSTRUCTION(192, __VA_ARGS__, "%96", "%97", "%98", "%99", "%100", "%101", "%102"); \
  if constexpr (kColumns == 208)                                                                                    \
    INSTRUCTION(208, __VA_ARGS__, "%104", "%105", "%106", "%107", "%108", "%109", "%110");                          \
  if constexpr (kColumns == 224)                                                                                    \
    INSTRUCTION(224, __VA_ARGS__, "%112", "%113", "%114", "%115", "%116", "%117", "%118");                          \
  if constexpr (kColumns == 240)                                                                                    \
    INSTRUCTION(240, __VA_ARGS__, "%120", "%121", "%122", "%123", "%124", "%125", "%126");                          \
  if constexpr (kColumns == 256) INSTRUCTION(256, __VA_ARGS__, "%128", "%129", "%130", "%131", "%132", "%133", "%134")

#define WGMMA_TEXT(N, TYPES, A, B, ADD, TRANSPOSED)                                                                   \
  "{\n.reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N TYPES " {" WGMMA_NAMES_##N \
      "}, " A ", " B ", add, 1, 1" TRANSPOSED ";\n}\n"

#define WGMMA_SHARED(N, TYPES, A, B, ADD, TA, TB, ...)          \
  asm volatile(WGMMA_TEXT(N, TYPES, A, B, ADD, ", " TA ", " TB) \
               : WGMMA_SUMS_##N                                 \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kTransposedA), "n"(kTransposedB))
#define WGMMA_SHARED_E4M3(N, TYPES, A, B, ADD, ...) \
  asm volatile(WGMMA_TEXT(N, TYPES, A, B, ADD, "") : WGMMA_SUMS_##N : "l"(a), "l"(b), "r"(static_cast<int>(add)))

#define WGMMA_REGISTERS(N, TYPES, A0, A1, A2, A3, B, ADD, TB)                            \
  asm volatile(WGMMA_TEXT(N, TYPES, "{" A0 ", " A1 ", " A2 ", " A3 "}", B, ADD, ", " TB) \
               : WGMMA_SUMS_##N                                                          \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1), "n"(kTransposedB))
#define WGMMA_REGISTERS_E4M3(N, TYPES, A0, A1, A2, A3, B, ADD, TB)                  \
  asm volatile(WGMMA_TEXT(N, TYPES, "{" A0 ", " A1 ", " A2 ", " A3 "}", B, ADD, "") \
               : WGMMA_SUMS_##N                                                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1))

// Type parameters here are not called Element: some kernels define that as a macro, Bf16 for one, and then Bf16 would
// name the parameter.

// sum = a (64xK) * b (KxN), or sum += if `add`; K is 16, of e4m3 32. Transposed matrices are those whose K strides:
// there are none of e4m3.
template <typename Operand, int kColumns, bool kTransposedA, bool kTransposedB>
__device__ __forceinline__ void wgmma(float (*sum)[4], u64 a, u64 b, bool add) {
  static_assert(kColumns >= 8 && kColumns <= 256 && (kColumns == 8 || kColumns % 16 == 0));
  if constexpr (kIsSame<Operand, E4m3>) {
    static_assert(!kTransposedA && !kTransposedB);
    WGMMA_OF_COLUMNS(WGMMA_SHARED_E4M3, "k32.f32.e4m3.e4m3");
  } else if constexpr (kIsSame<Operand, Bf16>) {
    WGMMA_OF_COLUMNS(WGMMA_SHARED, "k16.f32.bf16.bf16");
  } else {
    WGMMA_OF_COLUMNS(WGMMA_SHARED, "k16.f32.f16.f16");
  }
}

// sum += a (64xK, a fragment as mma.sync's in every warp) * b (KxN).
template <typename Operand, int kColumns, bool kTransposedB>
__device__ __forceinline__ void wgmma_registers(float (*sum)[4], const u32 (&a)[4], u64 b) {
  static_assert(kColumns >= 8 && kColumns <= 256 && (kColumns == 8 || kColumns % 16 == 0));
  if constexpr (kIsSame<Operand, E4m3>) {
    static_assert(!kTransposedB);
    WGMMA_OF_COLUMNS(WGMMA_REGISTERS_E4M3, "k32.f32.e4m3.e4m3");
  } else if constexpr (kIsSame<Operand, Bf16>) {
    WGMMA_OF_COLUMNS(WGMMA_REGISTERS, "k16.f32.bf16.bf16");
  } else {
    WGMMA_OF_COLUMNS(WGMMA_REGISTERS, "k16.f32.f16.f16");
  }
}
