// Warpgroup matrix instructions that the caller waits for: wgmma m64nNk16, and k32 of e4m3, with fp32 accumulators
// (sm_90a), N a multiple of 16 from 64 to 256, issued in groups that run beside what a warpgroup does next.
//
// wgmma_begin before the first instruction of a group, wgmma_commit after its last, wgmma_wait<n> until all but the
// last n groups have ended; then wgmma_hold on their accumulators. Until then nothing may touch those accumulators, an
// A in registers, or the shared memory that is read. Accumulators lie as in wgmma.cuh.
#pragma once

#include "templates/common/wgmma.cuh"

__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

#define WGMMA_SUM(j) "+f"(sum[j][0]), "+f"(sum[j][1]), "+f"(sum[j][2]), "+f"(sum[j][3])
#define WGMMA_SUMS_64 \
  WGMMA_SUM(0), WGMMA_SUM(1), WGMMA_SUM(2), WGMMA_SUM(3), WGMMA_SUM(4), WGMMA_SUM(5), WGMMA_SUM(6), WGMMA_SUM(7)
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
#define WGMMA_NAMES_64                                                   \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
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

#define WGMMA_TEXT(N, TYPE, A, B, ADD, TRANSPOSED)                                                                  \
  "{\n.reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE \
  " {" WGMMA_NAMES_##N "}, " A ", " B ", add, 1, 1, " TRANSPOSED ";\n}\n"

#define WGMMA_SHARED(N, TYPE, A, B, ADD) \
  if constexpr (kColumns == N)           \
  asm volatile(WGMMA_TEXT(N, TYPE, A, B, ADD, "0, 0") : WGMMA_SUMS_##N : "l"(a), "l"(b), "r"(static_cast<int>(add)))

#define WGMMA_REGISTERS(N, TYPE, A, B, ADD)        \
  if constexpr (kColumns == N)                     \
  asm volatile(WGMMA_TEXT(N, TYPE, A, B, ADD, "1") \
               : WGMMA_SUMS_##N                    \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1))

// Both K-major: there is no transposed e4m3.
#define WGMMA_TEXT_E4M3(N, A, B, ADD)         \
  "{\n.reg .pred add;\nsetp.ne.b32 add, " ADD \
  ", 0;\n"                                    \
  "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" WGMMA_NAMES_##N "}, " A ", " B ", add, 1, 1;\n}\n"

#define WGMMA_SHARED_E4M3(N, A, B, ADD) \
  if constexpr (kColumns == N)          \
  asm volatile(WGMMA_TEXT_E4M3(N, A, B, ADD) : WGMMA_SUMS_##N : "l"(a), "l"(b), "r"(static_cast<int>(add)))

#define WGMMA_REGISTERS_E4M3(N, A, B, ADD)   \
  if constexpr (kColumns == N)               \
  asm volatile(WGMMA_TEXT_E4M3(N, A, B, ADD) \
               : WGMMA_SUMS_##N              \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1))

#define WGMMA_SHARED_OF(TYPE)                      \
  WGMMA_SHARED(64, TYPE, "%32", "%33", "%34");     \
  WGMMA_SHARED(80, TYPE, "%40", "%41", "%42");     \
  WGMMA_SHARED(96, TYPE, "%48", "%49", "%50");     \
  WGMMA_SHARED(112, TYPE, "%56", "%57", "%58");    \
  WGMMA_SHARED(128, TYPE, "%64", "%65", "%66");    \
  WGMMA_SHARED(144, TYPE, "%72", "%73", "%74");    \
  WGMMA_SHARED(160, TYPE, "%80", "%81", "%82");    \
  WGMMA_SHARED(176, TYPE, "%88", "%89", "%90");    \
  WGMMA_SHARED(192, TYPE, "%96", "%97", "%98");    \
  WGMMA_SHARED(208, TYPE, "%104", "%105", "%106"); \
  WGMMA_SHARED(224, TYPE, "%112", "%113", "%114"); \
  WGMMA_SHARED(240, TYPE, "%120", "%121", "%122"); \
  WGMMA_SHARED(256, TYPE, "%128", "%129", "%130")

#define WGMMA_REGISTERS_OF(TYPE)                                          \
  WGMMA_REGISTERS(64, TYPE, "{%32, %33, %34, %35}", "%36", "%37");        \
  WGMMA_REGISTERS(80, TYPE, "{%40, %41, %42, %43}", "%44", "%45");        \
  WGMMA_REGISTERS(96, TYPE, "{%48, %49, %50, %51}", "%52", "%53");        \
  WGMMA_REGISTERS(112, TYPE, "{%56, %57, %58, %59}", "%60", "%61");       \
  WGMMA_REGISTERS(128, TYPE, "{%64, %65, %66, %67}", "%68", "%69");       \
  WGMMA_REGISTERS(144, TYPE, "{%72, %73, %74, %75}", "%76", "%77");       \
  WGMMA_REGISTERS(160, TYPE, "{%80, %81, %82, %83}", "%84", "%85");       \
  WGMMA_REGISTERS(176, TYPE, "{%88, %89, %90, %91}", "%92", "%93");       \
  WGMMA_REGISTERS(192, TYPE, "{%96, %97, %98, %99}", "%100", "%101");     \
  WGMMA_REGISTERS(208, TYPE, "{%104, %105, %106, %107}", "%108", "%109"); \
  WGMMA_REGISTERS(224, TYPE, "{%112, %113, %114, %115}", "%116", "%117"); \
  WGMMA_REGISTERS(240, TYPE, "{%120, %121, %122, %123}", "%124", "%125"); \
  WGMMA_REGISTERS(256, TYPE, "{%128, %129, %130, %131}", "%132", "%133")

// sum = a (64xK) * b (KxN), or sum += if `add`; both K-major, in shared memory; K is 16, of e4m3 32.
template <typename Element, int kColumns>
__device__ __forceinline__ void wgmma_rows(float (*sum)[4], u64 a, u64 b, bool add) {
  static_assert(kColumns >= 64 && kColumns <= 256 && kColumns % 16 == 0);
  if constexpr (kIsE4m3<Element>) {
    static_assert(kColumns == 80 || (kColumns % 32 == 0 && kColumns <= 192), "of e4m3 so many alone are used");
    WGMMA_SHARED_E4M3(64, "%32", "%33", "%34");
    WGMMA_SHARED_E4M3(80, "%40", "%41", "%42");
    WGMMA_SHARED_E4M3(96, "%48", "%49", "%50");
    WGMMA_SHARED_E4M3(128, "%64", "%65", "%66");
    WGMMA_SHARED_E4M3(160, "%80", "%81", "%82");
    WGMMA_SHARED_E4M3(192, "%96", "%97", "%98");
  } else if constexpr (kIsBf16<Element>) {
    WGMMA_SHARED_OF("bf16");
  } else {
    WGMMA_SHARED_OF("f16");
  }
}

// sum += a (64xK, a fragment as mma.sync's in every warp) * b (KxN, in shared memory; transposed, but of e4m3 K-major).
template <typename Element, int kColumns>
__device__ __forceinline__ void wgmma_columns(float (*sum)[4], const u32 (&a)[4], u64 b) {
  static_assert(kColumns >= 64 && kColumns <= 256 && kColumns % 16 == 0);
  if constexpr (kIsE4m3<Element>) {
    static_assert(kColumns <= 128 || kColumns == 192 || kColumns == 256, "of e4m3 so many alone are used");
    WGMMA_REGISTERS_E4M3(64, "{%32, %33, %34, %35}", "%36", "%37");
    WGMMA_REGISTERS_E4M3(80, "{%40, %41, %42, %43}", "%44", "%45");
    WGMMA_REGISTERS_E4M3(96, "{%48, %49, %50, %51}", "%52", "%53");
    WGMMA_REGISTERS_E4M3(112, "{%56, %57, %58, %59}", "%60", "%61");
    WGMMA_REGISTERS_E4M3(128, "{%64, %65, %66, %67}", "%68", "%69");
    WGMMA_REGISTERS_E4M3(192, "{%96, %97, %98, %99}", "%100", "%101");
    WGMMA_REGISTERS_E4M3(256, "{%128, %129, %130, %131}", "%132", "%133");
  } else if constexpr (kIsBf16<Element>) {
    WGMMA_REGISTERS_OF("bf16");
  } else {
    WGMMA_REGISTERS_OF("f16");
  }
}

#undef WGMMA_SUM
#undef WGMMA_SUMS_64
#undef WGMMA_SUMS_80
#undef WGMMA_SUMS_96
#undef WGMMA_SUMS_112
#undef WGMMA_SUMS_128
#undef WGMMA_SUMS_144
#undef WGMMA_SUMS_160
#undef WGMMA_SUMS_176
#undef WGMMA_SUMS_192
#undef WGMMA_SUMS_208
#undef WGMMA_SUMS_224
#undef WGMMA_SUMS_240
#undef WGMMA_SUMS_256
#undef WGMMA_NAMES_64
#undef WGMMA_NAMES_80
#undef WGMMA_NAMES_96
#undef WGMMA_NAMES_112
#undef WGMMA_NAMES_128
#undef WGMMA_NAMES_144
#undef WGMMA_NAMES_160
#undef WGMMA_NAMES_176
#undef WGMMA_NAMES_192
#undef WGMMA_NAMES_208
#undef WGMMA_NAMES_224
#undef WGMMA_NAMES_240
#undef WGMMA_NAMES_256
#undef WGMMA_TEXT
#undef WGMMA_TEXT_E4M3
#undef WGMMA_SHARED_E4M3
#undef WGMMA_REGISTERS_E4M3
#undef WGMMA_SHARED
#undef WGMMA_REGISTERS
#undef WGMMA_SHARED_OF
#undef WGMMA_REGISTERS_OF
