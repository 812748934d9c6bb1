// Warp-level matrix instructions: ldmatrix and mma.sync m16n8k16 with fp32 accumulators (sm_80+).
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/types.cuh"

// Four 8x8 matrices of 16-bit elements. Lanes 8i..8i+7 give the row addresses of matrix i, 16 bytes each.
__device__ __forceinline__ void ldmatrix(u32 (&fragment)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void ldmatrix_transposed(u32 (&fragment)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(address)
               : "memory");
}

// Stores what ldmatrix would load (sm_90+).
__device__ __forceinline__ void stmatrix(u32 address, const u32 (&fragment)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(fragment[0]),
               "r"(fragment[1]), "r"(fragment[2]), "r"(fragment[3])
               : "memory");
}

// sum += a (16x16, row-major fragment) * b (16x8, column-major fragment).
template <typename Element>
__device__ __forceinline__ void mma_16816(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1);

template <>
__device__ __forceinline__ void mma_16816<Bf16>(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void mma_16816<Fp16>(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// An 8x8 matrix of 16-bit elements, two in each lane, transposed.
__device__ __forceinline__ u32 transposed_8x8(u32 fragment) {
  u32 result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(fragment));
  return result;
}
