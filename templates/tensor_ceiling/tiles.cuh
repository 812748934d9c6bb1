// What the kernel and its reference agree on: the operands, the tiles, and what is written of them.
//
// A tile is 64x256 sums over K. Its operands repeat after kPeriod of K, so that they stay in shared memory; even
// and odd tiles have an `a` each. Of every tile the sums of its rows are written, over 64 columns at a time.
#pragma once

#include "templates/common/types.cuh"

// kernel.json has them too.
constexpr int kRows = 64, kColumns = 256, kPeriod = 128, kSets = 2;
constexpr int kSumColumns = 64, kTileSums = kRows * kColumns / kSumColumns;

// Small integers: products and sums are exact in every type.
__device__ __forceinline__ float operand_of(float input) { return rintf(input); }
