// The products of one warp by mma.sync (sm_80+): its 16 rows against one tile of K and V after the other. Softmax and
// what lanes hold are those of the warpgroups in attend.cuh.
#pragma once

#include "templates/common/mma.cuh"
#include "templates/prefill_attention/attend.cuh"

class MmaAttention : public Attention {
 public:
  __device__ __forceinline__ explicit MmaAttention(int warpgroup) : Attention(warpgroup) {
    const int lane = threadIdx.x % kWarpSize;
    swizzle_ = lane % 8;
    // ldmatrix takes rows 0-15 of 16 bytes from lanes 0-15, and the same rows of the next 16 bytes from the others;
    // of K, whose rows are columns of the product, rows 0-7 of both from the first half.
    tall_row_ = lane % 16 * 128;
    tall_unit_ = lane / 16;
    wide_row_ = (lane / 16 * 8 + lane % 8) * 128;
    wide_unit_ = lane / 8 % 2;
    query_row_ = (first_row_ + static_cast<int>(threadIdx.x) / kWarpSize % 4 * 16) * 128 + tall_row_;
  }

  // S = Q K^T.
  __device__ __forceinline__ void score(u32 queries, u32 keys) {
    set_zero(scores_);
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
      u32 q[4];
      ldmatrix(q, queries + step / 4 * kQueryChunkBytes + query_row_ + unit(step % 4 * 2 + tall_unit_));
      const u32 column = keys + step / 4 * kTileChunkBytes + wide_row_ + unit(step % 4 * 2 + wide_unit_);
#pragma unroll
      for (int pair = 0; pair < kTile / 16; ++pair) {
        u32 k[4];
        ldmatrix(k, column + pair * 2048);
        mma_16816<Math>(scores_[2 * pair], q, k[0], k[1]);
        mma_16816<Math>(scores_[2 * pair + 1], q, k[2], k[3]);
      }
    }
  }

  // O += P V.
  __device__ __forceinline__ void accumulate(u32 values) {
#pragma unroll
    for (int step = 0; step < kTile / 16; ++step) {
#pragma unroll
      for (int pair = 0; pair < kHeadDim / 16; ++pair) {
        u32 v[4];
        ldmatrix_transposed(
            v, values + pair / 4 * kTileChunkBytes + step * 2048 + tall_row_ + unit(pair % 4 * 2 + tall_unit_));
        mma_16816<Math>(output_[2 * pair], p_[step], v[0], v[1]);
        mma_16816<Math>(output_[2 * pair + 1], p_[step], v[2], v[3]);
      }
    }
  }

  // Whether any of the warp's rows sees anything of tokens [first, end).
  __device__ __forceinline__ bool sees(const Work& work, int first, int end) const {
    const int warp_row = first_row_ + static_cast<int>(threadIdx.x) / kWarpSize % 4 * 16;
    const int first_token = work.first_token + warp_row / kHeadsInRows;
    const int last_token = work.first_token + (warp_row + 15) / kHeadsInRows;
    return first < work.end(last_token) && end > work.begin(first_token);
  }

 private:
  // The place of 16-byte unit `index` of a chunk's row, in the rows that this lane addresses.
  __device__ __forceinline__ u32 unit(int index) const { return (index ^ swizzle_) << 4; }

  int swizzle_;
  u32 tall_row_, wide_row_, query_row_;
  int tall_unit_, wide_unit_;
};
