// Online softmax attention of one warp over its own sub-tiles: S = Q K^T, P = 2^(S - m), O += P V.
//
// Lane l holds, of every 16x8 tile, row l/4 (and row l/4 + 8) at columns 2(l%4) and the next.
#pragma once

#include "templates/common/mma.cuh"
#include "templates/common/reduce.cuh"
#include "templates/decode_attention/query.cuh"

// The lane's part of the addresses that ldmatrix takes, for the four 32-byte steps of a 128-byte row.
struct LaneOffsets {
  u32 row[4];     // Q, and V transposed: matrices go down 8 rows, then right 16 bytes
  u32 column[4];  // K: matrices go right 16 bytes, then down 8 rows

  __device__ __forceinline__ LaneOffsets() {
    const u32 lane = threadIdx.x % kWarpSize, low = lane & 7, middle = lane >> 3 & 1, high = lane >> 4;
#pragma unroll
    for (u32 step = 0; step < 4; ++step) {
      row[step] = (middle * 8 + low) * 128 + ((high ^ low ^ 2 * step) << 4);
      column[step] = (high * 8 + low) * 128 + ((middle ^ low ^ 2 * step) << 4);
    }
  }
};

class Attention {
 public:
  static constexpr int kGroups = kWarpTokens / 16;
  // With lazy rescaling the running maximum may lag by this many powers of two: P stays below 256, which
  // both element types hold without losing relative precision.
  static constexpr float kLag = kLazyRescale ? 8.0f : 0.0f;

  __device__ __forceinline__ Attention() {
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        maximum_[tile][half] = lowest();
        sum_[tile][half] = 0;
      }
#pragma unroll
      for (int column = 0; column < kHeadDim / 8; ++column) {
#pragma unroll
        for (int i = 0; i < 4; ++i) output_[tile][column][i] = 0;
      }
    }
  }

  // S for the sub-tile at shared address `k`.
  __device__ __forceinline__ void score(u32 k, const Query& query, const LaneOffsets& lanes) {
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
      for (int column = 0; column < 2 * kGroups; ++column) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores_[tile][column][i] = 0;
      }
    }
    if constexpr (kNarrow) {
      score_narrow(k, query, lanes);
    } else {
      score_wide(k, query, lanes);
    }
  }

  // Turns S into P; tokens out of sight count for nothing, whatever they hold.
  __device__ __forceinline__ void soften(const Sight& sight, int first_row, float scale_log2) {
    if (sight.partial()) mask(sight, first_row);
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
      float highest[2];
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        float value = minus_infinity();
#pragma unroll
        for (int column = 0; column < 2 * kGroups; ++column) {
          value = fmaxf(value, fmaxf(scores_[tile][column][2 * half], scores_[tile][column][2 * half + 1]));
        }
        highest[half] = max_across<4>(value) * scale_log2;
      }
      raise_maximum(tile, highest);
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        const float maximum = maximum_[tile][half];
#pragma unroll
        for (int column = 0; column < 2 * kGroups; ++column) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            const float p = exp2_fast(fmaf(scores_[tile][column][i], scale_log2, -maximum));
            scores_[tile][column][i] = p;
            sum_[tile][half] += p;
          }
        }
      }
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

  // Writes this warp's rows to the merge area: O unnormalized, then the maximum and the denominator.
  __device__ __forceinline__ void deposit(float* rows, float* maxima, float* sums) const {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        const float sum = sum_across<4>(sum_[tile][half]);
        const int row = tile * 16 + half * 8 + lane / 4;
        if (row < kRows) {
          if (lane % 4 == 0) {
            maxima[row] = maximum_[tile][half];
            sums[row] = sum;
          }
          store_row(rows + row * kMergeStride, output_[tile], half);
        }
      }
    }
  }

 private:
  static constexpr int kHalves = kUpperRows ? 2 : 1;

  __device__ __forceinline__ void score_wide(u32 k, const Query& query, const LaneOffsets& lanes) {
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
      u32 a[kRowTiles][4];
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) query.fragment(a[tile], tile, step, lanes.row);
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
    for (int step = 0; step < kHeadDim / 32; ++step) {
      u32 a[2][kRowTiles][4];
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        query.fragment(a[0][tile], tile, 2 * step, lanes.row);
        query.fragment(a[1][tile], tile, 2 * step + 1, lanes.row);
      }
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        u32 b[4];
        ldmatrix(b, k + token_offset(16 * group) + step / 4 * kChunkBytes + lanes.column[step % 4]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {  // 8 tokens, 16 elements
          const u32 low = widen_e4m3x2(b[i]), high = widen_e4m3x2(b[i] >> 16);
#pragma unroll
          for (int tile = 0; tile < kRowTiles; ++tile) {
            mma_16816<Math>(scores_[tile][2 * group + i / 2], a[i % 2][tile], low, high);
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
    for (int step = 0; step < kHeadDim / 32; ++step) {
      u32 b[4];
      ldmatrix_transposed(b, v + step / 4 * kChunkBytes + lanes.row[step % 4]);
#pragma unroll
      for (int side = 0; side < 2; ++side) {  // 16 dimensions each
        const u32 upper = __byte_perm(b[2 * side], 0, 0x3120),
                  lower = __byte_perm(b[2 * side + 1], 0, 0x3120);
        const u32 even[2] = {widen_e4m3x2(upper), widen_e4m3x2(lower)};
        const u32 odd[2] = {widen_e4m3x2(upper >> 16), widen_e4m3x2(lower >> 16)};
#pragma unroll
        for (int tile = 0; tile < kRowTiles; ++tile) {
          mma_16816<Math>(output_[tile][4 * step + 2 * side], a[tile], even[0], even[1]);
          mma_16816<Math>(output_[tile][4 * step + 2 * side + 1], a[tile], odd[0], odd[1]);
        }
      }
    }
  }

  // This lane's part of a row. Where V is narrow, columns of an even and an odd tile alternate.
  __device__ __forceinline__ void store_row(float* row, const float (&output)[kHeadDim / 8][4],
                                            int half) const {
    const int lane = threadIdx.x % 4;
#pragma unroll
    for (int column = 0; column < kHeadDim / 8; column += 2) {
      const float(&left)[4] = output[column], (&right)[4] = output[column + 1];
      if constexpr (kNarrow) {
        reinterpret_cast<float4*>(row + column * 8)[lane] =
            make_float4(left[2 * half], right[2 * half], left[2 * half + 1], right[2 * half + 1]);
      } else {
        float2* to = reinterpret_cast<float2*>(row + column * 8) + lane;
        to[0] = make_float2(left[2 * half], left[2 * half + 1]);
        to[4] = make_float2(right[2 * half], right[2 * half + 1]);
      }
    }
  }

  __device__ __forceinline__ void mask(const Sight& sight, int first_row) {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        const int query = kQueries == 1 ? 0 : (first_row + tile * 16 + half * 8 + lane / 4) / kGroup;
#pragma unroll
        for (int column = 0; column < 2 * kGroups; ++column) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int token = column * 8 + lane % 4 * 2 + i - query;
            const bool seen = token < sight.end && (kWindow == 0 || token >= sight.first);
            if (!seen) scores_[tile][column][2 * half + i] = minus_infinity();
          }
        }
      }
    }
  }

  // Moves the running maximum up to `highest` and rescales what was summed so far; lazily, only once it lags
  // too far.
  __device__ __forceinline__ void raise_maximum(int tile, const float (&highest)[2]) {
    if constexpr (kLazyRescale) {
      bool lags = false;
#pragma unroll
      for (int half = 0; half < kHalves; ++half) lags |= highest[half] > maximum_[tile][half] + kLag;
      if (!__any_sync(kWholeWarp, lags)) return;
    }
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const float raised = fmaxf(maximum_[tile][half], highest[half]);
      const float factor = exp2_fast(maximum_[tile][half] - raised);
      maximum_[tile][half] = raised;
      sum_[tile][half] *= factor;
#pragma unroll
      for (int column = 0; column < kHeadDim / 8; ++column) {
        output_[tile][column][2 * half] *= factor;
        output_[tile][column][2 * half + 1] *= factor;
      }
    }
  }

  float scores_[kRowTiles][2 * kGroups][4];
  float output_[kRowTiles][kHeadDim / 8][4];
  float maximum_[kRowTiles][2];  // in units of log2, scale included
  float sum_[kRowTiles][2];      // this lane's share
};
