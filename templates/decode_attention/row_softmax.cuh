// Online softmax with rows on M: S is turned into P in place, O follows the running maximum. Shared by the
// math whose accumulators lie as those of mma.sync 16x8.
//
// Lane l holds, of every 16x8 tile, row l/4 (and row l/4 + 8) at columns 2(l%4) and the next. A warp holds
// kTiles tiles of 16 rows over all of its worker's tokens; the warps of a warpgroup hold 16 rows each.
#pragma once

#include "templates/common/reduce.cuh"
#include "templates/common/unrolled.cuh"
#include "templates/decode_attention/arguments.cuh"

template <int kTiles>
class RowSoftmax {
 public:
  // S becomes change(S).
  template <typename Change>
  __device__ __forceinline__ void each_score(const Change& change) {
    each_value(scores_, [&](float& score) { score = change(score); });
  }

  // Turns S into P; tokens out of visible count for nothing, whatever they hold.
  __device__ __forceinline__ void softmax_tile(const VisibleRange& visible, int first_row, float scale_log2) {
    if (visible.partial()) mask(visible, first_row);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      float highest[2];  // of this lane's tokens
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        float value = minus_infinity();
#pragma unroll
        for (int column = 0; column < 2 * kGroups; ++column) {
          value = fmaxf(value, fmaxf(scores_[tile][column][2 * half], scores_[tile][column][2 * half + 1]));
        }
        highest[half] = value * scale_log2;
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

  // Writes the worker's rows to the merge area: O unnormalized, then the maximum and the denominator.
  __device__ __forceinline__ void store_partial(float* rows, float* maxima, float* sums) const {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        const float sum = sum_across<4>(sum_[tile][half]);
        const int row = own_row() + tile * 16 + half * 8 + lane / 4;
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

 protected:
  static constexpr int kGroups = kWorkerTokens / 16;

  __device__ __forceinline__ RowSoftmax() {
    each_value(maximum_, [](float& maximum) { maximum = lowest(); });
    set_zero(sum_);
    set_zero(output_);
  }

  // The first packed row of the block that this warp holds.
  static __device__ __forceinline__ int own_row() {
    return kWorkerWarps == 1 ? 0 : static_cast<int>(threadIdx.x) / kWarpSize % kWorkerWarps * 16;
  }

  float scores_[kTiles][2 * kGroups][4];
  float output_[kTiles][kHeadDim / 8][4];
  float maximum_[kTiles][2];  // in units of log2, scale included
  float sum_[kTiles][2];      // this lane's share

 private:
  static constexpr int kHalves = kUpperRows ? 2 : 1;

  // This lane's part of a row. Where V is narrow, columns of an even and an odd tile alternate.
  __device__ __forceinline__ void store_row(float* row, const float (&output)[kHeadDim / 8][4], int half) const {
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

  __device__ __forceinline__ void mask(const VisibleRange& visible, int first_row) {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        const int query = kQueries == 1 ? 0 : (first_row + own_row() + tile * 16 + half * 8 + lane / 4) / kGroup;
#pragma unroll
        for (int column = 0; column < 2 * kGroups; ++column) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int token = column * 8 + lane % 4 * 2 + i - query;
            const bool seen = token < visible.end && (kWindow == 0 || token >= visible.first);
            if (!seen) scores_[tile][column][2 * half + i] = minus_infinity();
          }
        }
      }
    }
  }

  // Moves the running maximum up to the lanes' `highest` and rescales what was summed so far, once it
  // lags too far.
  __device__ __forceinline__ void raise_maximum(int tile, const float (&highest)[2]) {
    bool lags = false;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) lags |= highest[half] > maximum_[tile][half] + kLag;
    if (!__any_sync(kWholeWarp, lags)) return;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const float raised = fmaxf(maximum_[tile][half], max_across<4>(highest[half]));
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
};
