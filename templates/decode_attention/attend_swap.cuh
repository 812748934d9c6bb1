// Math `swap` (sm_80+): a warp multiplies its own sub-tiles, on M of mma.sync, with the packed rows, on N.
// Eight rows fill a tile, where `mma16` leaves half of one empty.
#pragma once

#include "templates/common/mma.cuh"
#include "templates/decode_attention/column_softmax.cuh"
#include "templates/decode_attention/query.cuh"

constexpr int kColumnTiles = ceil_div(kRows, 8);

// The staged rows as B fragments of two steps (32 dimensions), kept in registers or read again for each tile.
class Query {
 public:
  __device__ __forceinline__ Query(u32 shared, const LaneOffsets&) {
    const u32 lane = threadIdx.x % kWarpSize, row = lane % 8, unit = lane / 8;
    address_ = shared + kQueryOffset + row * 128 + ((unit ^ row) << 4);
    if constexpr (kQueryInRegisters) {
#pragma unroll
      for (int tile = 0; tile < kColumnTiles; ++tile) {
#pragma unroll
        for (int pair = 0; pair < kPairs; ++pair) load(kept_[tile][pair], tile, pair);
      }
    }
  }

  __device__ __forceinline__ void fragments(u32 (&b)[4], int tile, int pair) const {
    if constexpr (kQueryInRegisters) {
#pragma unroll
      for (int i = 0; i < 4; ++i) b[i] = kept_[tile][pair][i];
    } else {
      load(b, tile, pair);
    }
  }

 private:
  // The second pair of a 128-byte row has bit 2 of the unit's number set.
  __device__ __forceinline__ void load(u32 (&b)[4], int tile, int pair) const {
    ldmatrix(b, (address_ ^ pair % 2 << 6) + pair / 2 * kQueryChunkBytes + tile * 8 * 128);
  }

  u32 address_;
  u32 kept_[kQueryInRegisters ? kColumnTiles : 1][kQueryInRegisters ? kPairs : 1][4];
};

class Attention : public ColumnSoftmax<16, 16, kColumnTiles> {
 public:
  __device__ __forceinline__ void score(u32 k, const Query& query, const LaneOffsets& lanes) {
    set_zero(scores_);
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      u32 b[kColumnTiles][4];
#pragma unroll
      for (int tile = 0; tile < kColumnTiles; ++tile) query.fragments(b[tile], tile, pair);
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        u32 a[2][4];
        load_k(a, k + token_offset(16 * group), pair, lanes);
#pragma unroll
        for (int tile = 0; tile < kColumnTiles; ++tile) {
          mma_16816<Math>(scores_[group][tile], a[0], b[tile][0], b[tile][1]);
          if (is_pair(pair)) mma_16816<Math>(scores_[group][tile], a[1], b[tile][2], b[tile][3]);
        }
      }
    }
  }

  __device__ __forceinline__ void softmax_tile(const VisibleRange& visible, int first_row, float scale_log2) {
    if (visible.partial()) mask(visible, first_row, 0);
    float highest[kColumnTiles][2];
    const bool lags = find_highest(highest, scale_log2);
    if (__any_sync(kWholeWarp, lags)) {
#pragma unroll
      for (int tile = 0; tile < kColumnTiles; ++tile) {
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          raise_maximum(tile, side, max_across_rows(highest[tile][side]));
        }
      }
    }
#pragma unroll
    for (int tile = 0; tile < kColumnTiles; ++tile) {
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          scores_[group][tile][i] = probability(group, tile, i, scale_log2);
          sum_[tile][i % 2] += scores_[group][tile][i];
        }
      }
    }
  }

  __device__ __forceinline__ void accumulate(u32 v, const LaneOffsets& lanes) {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      u32 b[kColumnTiles][2];
#pragma unroll
      for (int tile = 0; tile < kColumnTiles; ++tile) {
        const float(&p)[4] = scores_[group][tile];
        b[tile][0] = transposed_8x8(Math::pack(p[0], p[1]));
        b[tile][1] = transposed_8x8(Math::pack(p[2], p[3]));
      }
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) {
        u32 a[2][4];
        load_v(a, v + token_offset(16 * group), pair, lanes);
#pragma unroll
        for (int tile = 0; tile < kColumnTiles; ++tile) {
          mma_16816<Math>(output_[2 * pair][tile], a[0], b[tile][0], b[tile][1]);
          if (is_pair(pair)) mma_16816<Math>(output_[2 * pair + 1][tile], a[1], b[tile][0], b[tile][1]);
        }
      }
    }
  }

  __device__ __forceinline__ void store_partial(float* rows, float* maxima, float* sums) const {
#pragma unroll
    for (int tile = 0; tile < kColumnTiles; ++tile) {
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const float sum = sum_across_rows(sum_[tile][side]);
        const int row = own_row(tile, side);
        if (threadIdx.x % kWarpSize < 4 && row < kRows) {
          maxima[row] = maximum_[tile][side];
          sums[row] = sum;
        }
      }
    }
    store_output(rows, 0);
  }

 private:
  // Two A fragments of 16 tokens of K: dimensions 32 * pair to 32 * pair + 15, and the next 16.
  static __device__ __forceinline__ void load_k(u32 (&a)[2][4], u32 k, int pair, const LaneOffsets& lanes) {
    if constexpr (kNarrow) {
      u32 raw[4];
      ldmatrix(raw, k + pair / 4 * kChunkBytes + lanes.row[pair % 4]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint2 wide = widen_e4m3x4(raw[i]);
        a[i / 2][i % 2] = wide.x;
        a[i / 2][i % 2 + 2] = wide.y;
      }
    } else {
      ldmatrix(a[0], k + pair / 2 * kChunkBytes + lanes.row[pair % 2 * 2]);
      ldmatrix(a[1], k + pair / 2 * kChunkBytes + lanes.row[pair % 2 * 2 + 1]);
    }
  }

  // Two A fragments of V's transpose: the same dimensions by 16 tokens. Where V is narrow, the transposing
  // ldmatrix moves pairs of dimensions; parted, the even ones are the upper 8 rows of a fragment and the odd
  // ones the lower.
  static __device__ __forceinline__ void load_v(u32 (&a)[2][4], u32 v, int pair, const LaneOffsets& lanes) {
    if constexpr (kNarrow) {
      u32 raw[4];
      ldmatrix_transposed(raw, v + pair / 4 * kChunkBytes + lanes.row[pair % 4]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint2 wide = widen_e4m3x4(__byte_perm(raw[i], 0, 0x3120));
        a[i / 2][i % 2 * 2] = wide.x;
        a[i / 2][i % 2 * 2 + 1] = wide.y;
      }
    } else {
      ldmatrix_transposed(a[0], v + pair / 2 * kChunkBytes + lanes.column[pair % 2 * 2]);
      ldmatrix_transposed(a[1], v + pair / 2 * kChunkBytes + lanes.column[pair % 2 * 2 + 1]);
    }
  }
};
