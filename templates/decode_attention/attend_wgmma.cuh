// Math `wgmma64` (sm_90a): a warpgroup multiplies up to 64 packed rows, on M of wgmma, with its own
// sub-tiles. Q and K come from shared memory; P is A in registers, V the transposed B in shared memory.
#pragma once

#include "templates/common/wgmma.cuh"
#include "templates/decode_attention/query_wgmma.cuh"
#include "templates/decode_attention/row_softmax.cuh"

static_assert(kRowTiles == kWorkerWarps, "every warp of a worker has 16 rows");

class Attention : public RowSoftmax<1> {
 public:
  __device__ __forceinline__ void score(u32 k, const Query& query, const LaneOffsets&) {
    wgmma_hold<2 * kGroups>(scores_[0]);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
#pragma unroll
      for (int token = 0; token < kWorkerTokens; token += kPart) {
        const u32 part = k + token_offset(token) + step / 4 * kChunkBytes + step % 4 * 32;
        wgmma<Math, kPart, false, false>(scores_[0] + token / 8, query.matrix(step), WgmmaMatrix::rows(part), step > 0);
      }
    }
    wgmma_finish();
    wgmma_hold<2 * kGroups>(scores_[0]);
  }

  // Warps whose rows are all padding have nothing that is worth it.
  __device__ __forceinline__ void softmax_tile(const VisibleRange& visible, int first_row, float scale_log2) {
    if (own_row() < kRows) RowSoftmax<1>::softmax_tile(visible, first_row, scale_log2);
  }

  __device__ __forceinline__ void accumulate(u32 v, const LaneOffsets&) {
    u32 p[kGroups][4];
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&from)[4] = scores_[0][2 * group + i / 2];
        p[group][i] = Math::pack(from[i % 2 * 2], from[i % 2 * 2 + 1]);
      }
    }
    wgmma_hold<kHeadDim / 8>(output_[0]);
    wgmma_begin();
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
      for (int chunk = 0; chunk < kHeadDim / 64; ++chunk) {
        const u32 part = v + token_offset(16 * group) + chunk * kChunkBytes;
        wgmma_registers<Math, 64, true>(output_[0] + 8 * chunk, p[group], WgmmaMatrix::columns(part, 0));
      }
      if constexpr (kHeadDim % 64 != 0) {
        const u32 rest = v + token_offset(16 * group) + kHeadDim / 64 * kChunkBytes;
        wgmma_registers<Math, kHeadDim % 64, true>(output_[0] + kHeadDim / 64 * 8, p[group],
                                                   WgmmaMatrix::columns(rest, 0));
      }
    }
    wgmma_finish();
    wgmma_hold<kHeadDim / 8>(output_[0]);
  }

 private:
  static constexpr int kPart = min_of(64, min_of(kWorkerTokens, kBoxTokens));  // tokens an instruction takes
};
