// Math `wgmma_swap` (sm_90a): a warpgroup multiplies 64 tokens at a time, on M of wgmma, with 8, 16 or 32
// packed rows, on N. V's transpose is A in shared memory; P goes through shared memory, where all four warps
// need it.
#pragma once

#include "templates/common/shared_memory.cuh"
#include "templates/common/wgmma.cuh"
#include "templates/decode_attention/column_softmax.cuh"
#include "templates/decode_attention/query_wgmma.cuh"
#include "templates/decode_attention/worker.cuh"

static_assert(kBoxTokens % 64 == 0 && kWorkerTokens % 64 == 0, "64 tokens lie together");

// The warps of a worker share P twice, as [8 packed rows][token][row], so that a tile's can be written
// while the last one's is still being read; and a float for every warp and row.
class Exchange {
 public:
  __device__ __forceinline__ Exchange() {
    u8* const shared = dynamic_shared();
    const int worker = threadIdx.x / kWorkerThreads;
    probabilities_ = shared + kScratchOffset + worker * 2 * kBytes;
    values_ =
        reinterpret_cast<float*>(shared + kScratchOffset + kWorkers * 2 * kBytes) + worker * kWorkerWarps * kColumns;
  }

  __device__ __forceinline__ void flip() { odd_ = !odd_; }

  // P of a token for rows `row` (even) and the next.
  __device__ __forceinline__ void store(int token, int row, u32 pair) const {
    *reinterpret_cast<u32*>(current() + (row / 8 * kWorkerTokens + token) * 16 + row % 8 * 2) = pair;
  }

  // 16 tokens of P, by all rows.
  __device__ __forceinline__ u64 matrix(int token) const {
    return WgmmaMatrix::narrow_columns(shared_address(current()) + token * 16, kWorkerTokens * 16);
  }

  __device__ __forceinline__ float& value(int warp, int row) const { return values_[warp * kColumns + row]; }

 private:
  static constexpr int kBytes = kWorkerTokens * kColumns * 2;

  __device__ __forceinline__ u8* current() const { return probabilities_ + (odd_ ? kBytes : 0); }

  u8* probabilities_;
  float* values_;
  bool odd_ = false;
};

class Attention : public ColumnSoftmax<64, 64, kColumns / 8> {
 public:
  __device__ __forceinline__ void score(u32 k, const Query& query, const LaneOffsets&) {
    wgmma_hold<kGroups * kTiles>(scores_[0]);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        const u32 part = k + token_offset(64 * group) + step / 4 * kChunkBytes + step % 4 * 32;
        wgmma<Math, kColumns, false, false>(scores_[group], WgmmaMatrix::rows(part), query.matrix(step), step > 0);
      }
    }
    wgmma_finish();
    wgmma_hold<kGroups * kTiles>(scores_[0]);
  }

  // P is written under the running maximum at hand, and once more in the rare case that this one lags: so one
  // barrier, which the warps need anyway before they read each other's P, is all that most tiles cost.
  __device__ __forceinline__ void softmax_tile(const VisibleRange& visible, int first_row, float scale_log2) {
    if (visible.partial()) mask(visible, first_row, warp() * 16);
    exchange_.flip();
    float highest[kTiles][2], fresh[kTiles][2];
    const bool lags = find_highest(highest, scale_log2);
    store_probabilities(fresh, scale_log2);
    if (any_in_worker(lags)) {
      raise_maxima(highest);
      store_probabilities(fresh, scale_log2);
      sync_worker();
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int side = 0; side < 2; ++side) sum_[tile][side] += fresh[tile][side];
    }
  }

  __device__ __forceinline__ void accumulate(u32 v, const LaneOffsets&) {
    wgmma_hold<kBlocks * kTiles>(output_[0]);
    wgmma_begin();
#pragma unroll
    for (int token = 0; token < kWorkerTokens; token += 16) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const u32 part = v + token_offset(token) + block * kChunkBytes;
        wgmma<Math, kColumns, true, true>(output_[block], WgmmaMatrix::columns(part, 0), exchange_.matrix(token), true);
      }
    }
    wgmma_finish();
    wgmma_hold<kBlocks * kTiles>(output_[0]);
  }

  __device__ __forceinline__ void store_partial(float* rows, float* maxima, float* sums) const {
    share(sum_, [](float value) { return sum_across_rows(value); });
    for (int row = threadIdx.x % kWorkerThreads; row < kRows; row += kWorkerThreads) {
      float sum = 0;
#pragma unroll
      for (int other = 0; other < kWorkerWarps; ++other) sum += exchange_.value(other, row);
      sums[row] = sum;
    }
    if (threadIdx.x % kWorkerThreads < 4) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          if (own_row(tile, side) < kRows) maxima[own_row(tile, side)] = maximum_[tile][side];
        }
      }
    }
    store_output(rows, warp() * 16);
  }

 private:
  static constexpr int kTiles = kColumns / 8;

  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / kWarpSize % kWorkerWarps; }

  __device__ __forceinline__ void store_probabilities(float (&sums)[kTiles][2], float scale_log2) const {
    const int own = warp() * 16 + static_cast<int>(threadIdx.x) % kWarpSize / 4;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      sums[tile][0] = sums[tile][1] = 0;
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        float p[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          p[i] = probability(group, tile, i, scale_log2);
          sums[tile][i % 2] += p[i];
        }
        exchange_.store(group * 64 + own, own_row(tile, 0), Math::pack(p[0], p[1]));
        exchange_.store(group * 64 + own + 8, own_row(tile, 0), Math::pack(p[2], p[3]));
      }
    }
  }

  // Every warp's part of a value for each row, to all warps.
  template <typename Reduce>
  __device__ __forceinline__ void share(const float (&values)[kTiles][2], const Reduce& reduce) const {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const float value = reduce(values[tile][side]);
        if (threadIdx.x % kWarpSize < 4) exchange_.value(warp(), own_row(tile, side)) = value;
      }
    }
    sync_worker();
  }

  __device__ __forceinline__ void raise_maxima(const float (&highest)[kTiles][2]) {
    share(highest, [](float value) { return max_across_rows(value); });
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        float value = minus_infinity();
#pragma unroll
        for (int other = 0; other < kWorkerWarps; ++other) {
          value = fmaxf(value, exchange_.value(other, own_row(tile, side)));
        }
        raise_maximum(tile, side, value);
      }
    }
  }

  Exchange exchange_;
};
