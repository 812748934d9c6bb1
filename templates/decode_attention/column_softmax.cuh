// Online softmax with tokens on M: the accumulators hold S transposed, then P, and O transposed. Shared by
// the math that multiply K by Q and V's transpose by P's.
//
// Lane l holds, of every 16x8 tile of S, tokens l/4 and l/4 + 8 of packed rows 2(l%4) and the next; of O,
// dimensions instead of tokens. A warp's tiles of S begin kTokenStride tokens apart, its tiles of O
// kDimStride dimensions.
#pragma once

#include "templates/common/reduce.cuh"
#include "templates/common/unrolled.cuh"
#include "templates/decode_attention/arguments.cuh"

template <int kTokenStride, int kDimStride, int kColumnTiles>
class ColumnSoftmax {
 public:
  // S becomes change(S).
  template <typename Change>
  __device__ __forceinline__ void each_score(const Change& change) {
    each_value(scores_, [&](float& score) { score = change(score); });
  }

 protected:
  static constexpr int kGroups = kWorkerTokens / kTokenStride;
  static constexpr int kBlocks = ceil_div(kHeadDim, kDimStride);

  __device__ __forceinline__ ColumnSoftmax() {
    each_value(maximum_, [](float& maximum) { maximum = lowest(); });
    set_zero(sum_);
    set_zero(output_);
  }

  // The packed row of the block that a lane holds at a tile's left (0) or right (1) column.
  static __device__ __forceinline__ int own_row(int tile, int side) {
    return tile * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + side;
  }

  // Tokens out of visible count for nothing, whatever they hold. The warp's first tile begins at token `begin`
  // of the sub-tile.
  __device__ __forceinline__ void mask(const VisibleRange& visible, int first_row, int begin) {
    const int own = begin + static_cast<int>(threadIdx.x) % kWarpSize / 4;
#pragma unroll
    for (int tile = 0; tile < kColumnTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int query = kQueries == 1 ? 0 : (first_row + own_row(tile, i % 2)) / kGroup;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
          const int token = own + group * kTokenStride + i / 2 * 8 - query;
          const bool seen = token < visible.end && (kWindow == 0 || token >= visible.first);
          if (!seen) scores_[group][tile][i] = minus_infinity();
        }
      }
    }
  }

  // The highest of this lane's scores of a row, and whether the running maximum lags too far behind any.
  __device__ __forceinline__ bool find_highest(float (&highest)[kColumnTiles][2], float scale_log2) const {
    bool lags = false;
#pragma unroll
    for (int tile = 0; tile < kColumnTiles; ++tile) {
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        float value = minus_infinity();
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
          value = fmaxf(value, fmaxf(scores_[group][tile][side], scores_[group][tile][2 + side]));
        }
        highest[tile][side] = value * scale_log2;
        lags |= highest[tile][side] > maximum_[tile][side] + kLag;
      }
    }
    return lags;
  }

  // Moves a row's running maximum up to `highest` and rescales what was summed so far.
  __device__ __forceinline__ void raise_maximum(int tile, int side, float highest) {
    const float raised = fmaxf(maximum_[tile][side], highest);
    const float factor = exp2_fast(maximum_[tile][side] - raised);
    maximum_[tile][side] = raised;
    sum_[tile][side] *= factor;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      output_[block][tile][side] *= factor;
      output_[block][tile][2 + side] *= factor;
    }
  }

  __device__ __forceinline__ float probability(int group, int tile, int i, float scale_log2) const {
    return exp2_fast(fmaf(scores_[group][tile][i], scale_log2, -maximum_[tile][i % 2]));
  }

  // Writes the warp's dimensions, of which the first is `begin`, of all rows to the merge area.
  __device__ __forceinline__ void store_output(float* rows, int begin) const {
    const int own = static_cast<int>(threadIdx.x) % kWarpSize / 4;
#pragma unroll
    for (int tile = 0; tile < kColumnTiles; ++tile) {
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        if (own_row(tile, side) >= kRows) continue;
        float* row = rows + own_row(tile, side) * kMergeStride + begin;
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          if (kHeadDim % kDimStride != 0 && block * kDimStride + begin >= kHeadDim) continue;
          const float low = output_[block][tile][side], high = output_[block][tile][2 + side];
          if constexpr (kNarrow) {  // the upper tile half holds the odd dimensions
            reinterpret_cast<float2*>(row + block * kDimStride)[own] = make_float2(low, high);
          } else {
            row[block * kDimStride + own] = low;
            row[block * kDimStride + own + 8] = high;
          }
        }
      }
    }
  }

  float scores_[kGroups][kColumnTiles][4];
  float output_[kBlocks][kColumnTiles][4];
  float maximum_[kColumnTiles][2];  // in units of log2, scale included; the same in all lanes of a row
  float sum_[kColumnTiles][2];      // this lane's share
};
