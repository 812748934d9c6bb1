// Weights in mxfp4 (OCP MX: e2m1, with a power of two for 32 of K), packed for lanes that hold them as A of mma.sync
// m16n8k16 and wgmma do.
//
// A matrix [rows][K] in blocks of 16 rows by 64 of K: 512 bytes of values, and elsewhere 32 bytes of scales. Lane l has
// 16 bytes of values, a word for 16 of K (step): rows l / 4 and l / 4 + 8, of K 2 * (l % 4), the next, and both again 8
// further. A word's pairs are, as in a fragment, (row, k), (row + 8, k), (row, k + 8), (row + 8, k + 8). The four bits
// of the lower k's value, sign first, are of the word
//   pair 0: 15, 8, 7, 6;  pair 1: 18, 11, 10, 9;  pair 2: 21, 14, 13, 12;  pair 3: 3, 1, 0, 4;
// those of the other value lie 16 further, modulo 32. So three pairs come into place by rotating, and the last by one
// product, whose three copies of these bits do not meet.
// The four bytes of scales of lane l lie at 4 * (l / 4): (row, first 32 of K), (row + 8, first), (row, second),
// (row + 8, second). A byte b means 2^(b - 253).
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/types.cuh"

constexpr int kPackedRows = 16, kPackedDepth = 64;  // of a block
constexpr int kPackedValueBytes = 512, kPackedScaleBytes = 32;

// The factors of the values of lane l's block: rows l / 4 and l / 4 + 8 of the first 32 of K, then the second.
__device__ __forceinline__ void unpack_scales(u32 word, u32 (&factors)[2][2]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) factors[i / 2][i % 2] = __byte_perm(word, 0, 0x0404 | 0x1010 * i) >> 1;
}

// A word's fragment of bf16. Where e2m1's bits are those of a bf16's sign, exponent and mantissa, its value is 2^126
// times too small, subnormal ones among them; `factors` make up for that.
__device__ __forceinline__ void unpack_values(u32 word, const u32 (&factors)[2], u32 (&fragment)[4]) {
  constexpr u32 kBits = 0x81c081c0u;
  fragment[0] = multiply_bf16x2(word & kBits, factors[0]);
  fragment[1] = multiply_bf16x2((word >> 3 | word << 29) & kBits, factors[1]);
  fragment[2] = multiply_bf16x2((word >> 6 | word << 26) & kBits, factors[0]);
  fragment[3] = multiply_bf16x2((word & 0x001b001bu) * 0x1084u & kBits, factors[1]);
}
