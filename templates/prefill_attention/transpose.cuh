// The warps beside the loading one, if bytes are multiplied: they take tiles of values as they landed, [token][dim],
// and write them as the product with P reads them, [dim][token]: e4m3 operands of wgmma are K-major. After
// FlashAttention-3 (Shah et al. 2024).
//
// A warp turns 32 tokens by 16 dims at a time. ldmatrix gives a lane (row g, place t) pairs of dims 2g of tokens 2t and
// 2t + 1, of four times 8 tokens; two byte permutes make of them four tokens of one dim, in the order in which
// Attention::pack has probabilities. Rows 2g, or 2g + 1, of one matrix would lie in half of the banks; so lanes from 16
// on swap their two units of 16 tokens.
#pragma once

#include "templates/common/mma.cuh"
#include "templates/prefill_attention/pipeline.cuh"

class Transposer {
 public:
  __device__ __forceinline__ explicit Transposer(const Pipeline& pipeline)
      : pipeline_(pipeline), turn_(static_cast<int>(threadIdx.x) / kWarpSize - 1) {
    const int lane = threadIdx.x % kWarpSize, matrix = lane / 8, row = lane % 8;
    const int odd = matrix / 2, unit = matrix % 2 ^ row / 4;
    from_ = lane * kRowBytes;
    from_swizzle_ = kRowBytes == 128 ? lane % 8 : lane / 2 % 4;
    to_ = (2 * row + odd) * 128;
    to_unit_ = (unit ^ (2 * row + odd) % 8) << 4;
  }

  // The values that `work` reads, in the order of Loader::load.
  __device__ __forceinline__ void transpose(const Work& work) {
    const TileRange tiles = work.tiles();
    for (int tile = tiles.end - 1; tile >= tiles.first; --tile) transpose(work.seen_rows(tile));
  }

 private:
  static constexpr int kAllBlocks = kHeadDim / 16;
  static constexpr int kParts = ceil_div(kAllBlocks, 4);
  static constexpr int kBlocks = ceil_div(kAllBlocks, kParts);  // of 16 dims that a lane has under way
  static constexpr int kJobs = kTile / 32 * kParts;

  // The last part may have fewer blocks.
  static __device__ __forceinline__ bool is_past(int block) { return kAllBlocks % kBlocks != 0 && block >= kAllBlocks; }

  __device__ __forceinline__ void transpose(RowRange kept) {
    mbarrier_wait(pipeline_.values_empty(values_.index), values_.parity ^ 1);
    mbarrier_wait(pipeline_.raw_full(raw_.index), raw_.parity);
    for (int job = turn_; job < kJobs; job += kWideningWarps) {
      const int step = job / kParts, block = job % kParts * kBlocks;
      u32 raw[kBlocks][4];
      load(raw, step, block);
      if (!kept.all()) {
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) clear(raw[i], step * 32, kept);
      }
      store(raw, step, block);
    }
    // The warp that had one job more has the last turn next time.
    turn_ = turn_ == 0 ? kWideningWarps - 1 : turn_ - 1;
    fence_async_proxy();
    release_by_lanes(pipeline_.values_full(values_.index));
    release_by_lanes(pipeline_.raw_empty(raw_.index));
    values_.advance();
    raw_.advance();
  }

  __device__ __forceinline__ void load(u32 (&raw)[kBlocks][4], int step, int block) const {
    const u32 rows = pipeline_.raw(raw_.index) + step * 32 * kRowBytes + from_;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      if (is_past(block + i)) continue;
      const int chunk = (block + i) / (kRowBytes / 16), unit = (block + i) % (kRowBytes / 16);
      ldmatrix_transposed(raw[i], rows + chunk * kTileChunkBytes + ((unit ^ from_swizzle_) << 4));
    }
  }

  // Zeros tokens that no query sees: 0 times whatever lies there must be 0.
  __device__ __forceinline__ void clear(u32 (&raw)[4], int first, RowRange kept) const {
#pragma unroll
    for (int matrix = 0; matrix < 4; ++matrix) {
      const int token = first + 8 * matrix + static_cast<int>(threadIdx.x) % 4 * 2;
      if (token < kept.begin || token >= kept.end) raw[matrix] &= 0xffff0000u;
      if (token + 1 < kept.begin || token + 1 >= kept.end) raw[matrix] &= 0x0000ffffu;
    }
  }

  __device__ __forceinline__ void store(const u32 (&raw)[kBlocks][4], int step, int block) const {
    const u32 rows = pipeline_.values(values_.index) + step / 4 * kValueChunkBytes + to_ + (to_unit_ ^ step % 4 << 5);
    const bool swaps = threadIdx.x % kWarpSize >= 16;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      if (is_past(block + i)) continue;
      u32 turned[4];  // of even and of odd dims, each 16 tokens and 16 more
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const u32 bytes = odd == 0 ? 0x6420 : 0x7531;
        const u32 first = __byte_perm(raw[i][0], raw[i][1], bytes);
        const u32 second = __byte_perm(raw[i][2], raw[i][3], bytes);
        turned[2 * odd] = swaps ? second : first;
        turned[2 * odd + 1] = swaps ? first : second;
      }
      stmatrix(rows + (block + i) * 16 * 128, turned);
    }
  }

  Pipeline pipeline_;
  int turn_;                 // the first job of the next tile
  u32 from_, from_swizzle_;  // this lane's token, in a tile as it landed
  u32 to_, to_unit_;         // this lane's dim, in a tile that is transposed
  RingPlace<kStages> values_;
  RingPlace<max_of(1, kRawStages)> raw_;
};
