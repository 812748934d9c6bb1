// Math `mma16` (sm_80+): a warp multiplies all packed rows, on M of mma.sync, with its own sub-tiles.
#pragma once

#include "templates/common/mma.cuh"
#include "templates/decode_attention/query.cuh"
#include "templates/decode_attention/row_softmax.cuh"

// The staged rows as fragments, kept in registers or read again for each tile.
class Query {
 public:
  __device__ __forceinline__ Query(u32 shared, const LaneOffsets& lanes) : address_(shared + kQueryOffset) {
    if constexpr (kQueryInRegisters) {
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
        for (int step = 0; step < kHeadDim / 16; ++step) load(kept_[tile][step], tile, step, lanes);
      }
    }
  }

  __device__ __forceinline__ void fragment(u32 (&a)[4], int tile, int step, const LaneOffsets& lanes) const {
    if constexpr (kQueryInRegisters) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = kept_[tile][step][i];
    } else {
      load(a, tile, step, lanes);
    }
  }

 private:
  __device__ __forceinline__ void load(u32 (&a)[4], int tile, int step, const LaneOffsets& lanes) const {
    ldmatrix(a, address_ + step / 4 * kQueryChunkBytes + tile * 16 * 128 + lanes.row[step % 4]);
  }

  u32 address_;
  u32 kept_[kQueryInRegisters ? kRowTiles : 1][kQueryInRegisters ? kHeadDim / 16 : 1][4];
};

class Attention : public RowSoftmax<kRowTiles> {
 public:
  // S for the sub-tile at shared address `k`.
  __device__ __forceinline__ void score(u32 k, const Query& query, const LaneOffsets& lanes) {
    set_zero(scores_);
    if constexpr (kNarrow) {
      score_narrow(k, query, lanes);
    } else {
      score_wide(k, query, lanes);
    }
  }

  // O += P V for the sub-tile at shared address `v`.
  __device__ __forceinline__ void accumulate(u32 v, const LaneOffsets& lanes) {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      u32 a[kRowTiles][4];
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          const float(&p)[4] = scores_[tile][2 * group + side];
          a[tile][2 * side] = Math::pack(p[0], p[1]);
          a[tile][2 * side + 1] = kUpperRows ? Math::pack(p[2], p[3]) : 0;
        }
      }
      if constexpr (kNarrow) {
        add_narrow(a, v + token_offset(16 * group), lanes);
      } else {
        add_wide(a, v + token_offset(16 * group), lanes);
      }
    }
  }

 private:
  __device__ __forceinline__ void score_wide(u32 k, const Query& query, const LaneOffsets& lanes) {
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
      u32 a[kRowTiles][4];
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) query.fragment(a[tile], tile, step, lanes);
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        u32 b[4];
        ldmatrix(b, k + token_offset(16 * group) + step / 4 * kChunkBytes + lanes.column[step % 4]);
#pragma unroll
        for (int tile = 0; tile < kRowTiles; ++tile) {
          mma_16816<Math>(scores_[tile][2 * group], a[tile], b[0], b[1]);
          mma_16816<Math>(scores_[tile][2 * group + 1], a[tile], b[2], b[3]);
        }
      }
    }
  }

  // One ldmatrix brings 32 elements of 16 tokens, which are two steps of the query.
  __device__ __forceinline__ void score_narrow(u32 k, const Query& query, const LaneOffsets& lanes) {
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      u32 a[2][kRowTiles][4];
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        query.fragment(a[0][tile], tile, 2 * pair, lanes);
        if (is_pair(pair)) query.fragment(a[1][tile], tile, 2 * pair + 1, lanes);
      }
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        u32 b[4];
        ldmatrix(b, k + token_offset(16 * group) + pair / 4 * kChunkBytes + lanes.column[pair % 4]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {  // 8 tokens, 16 elements
          if (i % 2 == 1 && !is_pair(pair)) continue;
          const uint2 wide = widen_e4m3x4(b[i]);
#pragma unroll
          for (int tile = 0; tile < kRowTiles; ++tile) {
            mma_16816<Math>(scores_[tile][2 * group + i / 2], a[i % 2][tile], wide.x, wide.y);
          }
        }
      }
    }
  }

  // O += P V for 16 tokens of V at shared address `v`.
  __device__ __forceinline__ void add_wide(const u32 (&a)[kRowTiles][4], u32 v, const LaneOffsets& lanes) {
#pragma unroll
    for (int pair = 0; pair < kHeadDim / 16; ++pair) {
      u32 b[4];
      ldmatrix_transposed(b, v + pair / 4 * kChunkBytes + lanes.row[pair % 4]);
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        mma_16816<Math>(output_[tile][2 * pair], a[tile], b[0], b[1]);
        mma_16816<Math>(output_[tile][2 * pair + 1], a[tile], b[2], b[3]);
      }
    }
  }

  // The transposing ldmatrix moves 16 bits, two neighbouring dimensions of a token. Parting them makes two
  // fragments: of the even dimensions among 16, and of the odd ones.
  __device__ __forceinline__ void add_narrow(const u32 (&a)[kRowTiles][4], u32 v, const LaneOffsets& lanes) {
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      u32 b[4];
      ldmatrix_transposed(b, v + pair / 4 * kChunkBytes + lanes.row[pair % 4]);
#pragma unroll
      for (int side = 0; side < 2; ++side) {  // 16 dimensions each
        if (side == 1 && !is_pair(pair)) continue;
        const u32 upper = __byte_perm(b[2 * side], 0, 0x3120), lower = __byte_perm(b[2 * side + 1], 0, 0x3120);
        const uint2 top = widen_e4m3x4(upper),
                    bottom = widen_e4m3x4(lower);  // of the even dimensions, and of the odd
#pragma unroll
        for (int tile = 0; tile < kRowTiles; ++tile) {
          mma_16816<Math>(output_[tile][4 * pair + 2 * side], a[tile], top.x, bottom.x);
          mma_16816<Math>(output_[tile][4 * pair + 2 * side + 1], a[tile], top.y, bottom.y);
        }
      }
    }
  }
};
