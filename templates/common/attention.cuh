// The tensors of kernels of attention, and what their rows' sums become.
#pragma once

#include "templates/common/types.cuh"

// Elements between neighbours of KV. A block is a page, or a sequence if KV is contiguous.
struct KvStrides {
  i64 block;
  i64 head;
  i64 token;
};

// Elements between neighbouring rows of queries or outputs.
struct RowStrides {
  i64 sequence;
  i64 token;
  i64 head;
};

// A sequence's length, which may be anything, within the tokens that its KV or page table has room for.
__device__ __forceinline__ int clamp_length(int length, int capacity) { return max_of(0, min_of(length, capacity)); }

// The factor of a row whose probabilities sum to `sum`; a row that sees nothing becomes 0, NaN stays NaN.
__device__ __forceinline__ float inverse_of(float sum) { return sum == 0 ? 0.0f : 1.0f / sum; }
