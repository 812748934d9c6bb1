// Sums of a warpgroup of moe_experts over a tile, by wgmma from the stages of ring.cuh, and how they are stored. With
// two matrices, eight columns of gate are followed by the same eight of up.
#pragma once

#include "templates/common/mma.cuh"
#include "templates/common/wgmma_async.cuh"
#include "templates/moe_experts/ring.cuh"
#include "templates/moe_experts/store.cuh"

#if !SWAPPED

// Rows are the instruction's rows: strips of 64, by the warpgroup's columns.
template <typename Product>
class PlainSums {
 public:
  static constexpr int kStrips = kRows / 64 / kRowGroups;

  __device__ __forceinline__ explicit PlainSums(int group) : first_row_(group % kRowGroups * kStrips * 64) {}

  // Issues the instructions of a stage, which begins with these chunks.
  __device__ __forceinline__ void add(u32 rows_chunk, u32 weights_chunk) {
    const u64 rows = WgmmaMatrix::rows(rows_chunk + first_row_ * kChunkRowBytes);
    const u64 weights = WgmmaMatrix::rows(weights_chunk);
#pragma unroll
    for (int step = 0; step < DEPTH / 16; ++step) {
      const int chunk = step / 4, within = step % 4 * 32;
      const u64 b = WgmmaMatrix::moved(weights, chunk * Stages<Product>::kWeightChunkBytes + within);
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) {
        const u64 a = WgmmaMatrix::moved(
            rows, chunk * Stages<Product>::kRowChunkBytes + strip * 64 * kChunkRowBytes + within);
        wgmma_rows<Element, kSumColumns<Product>>(sums_[strip], a, b, true);
      }
    }
  }

  __device__ __forceinline__ void hold() {
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) wgmma_hold<kSumColumns<Product> / 8>(sums_[strip]);
  }

  __device__ __forceinline__ void store(Element* out, const Tile& tile, int column) const {
    const int row = first_row_ + static_cast<int>(threadIdx.x) / kWarpSize % 4 * 16;
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip)
      store_strip<Product, kOwnColumns<Product> / 8, true>(sums_[strip], out, tile.place, tile.rows,
                                                           row + 64 * strip, column);
  }

 private:
  int first_row_;
  float sums_[kStrips][kSumColumns<Product> / 8][4] = {};
};

template <typename Product>
using SumsOf = PlainSums<Product>;

#else

// Columns of the weights are the instruction's rows, and a tile's rows its columns.
template <typename Product>
class SwappedSums {
 public:
  static constexpr int kParts = kSumColumns<Product> / 64;
  static_assert(kSumColumns<Product> % 64 == 0, "whole instructions");

  __device__ __forceinline__ explicit SwappedSums(int) {}

  __device__ __forceinline__ void add(u32 rows_chunk, u32 weights_chunk) {
    const u64 rows = WgmmaMatrix::rows(rows_chunk), weights = WgmmaMatrix::rows(weights_chunk);
#pragma unroll
    for (int step = 0; step < DEPTH / 16; ++step) {
      const int chunk = step / 4, within = step % 4 * 32;
      const u64 b = WgmmaMatrix::moved(rows, chunk * Stages<Product>::kRowChunkBytes + within);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const u64 a = WgmmaMatrix::moved(
            weights, chunk * Stages<Product>::kWeightChunkBytes + part * 64 * kChunkRowBytes + within);
        wgmma<Element, kRows, false, false>(sums_[part], a, b, true);
      }
    }
  }

  __device__ __forceinline__ void hold() {
#pragma unroll
    for (int part = 0; part < kParts; ++part) wgmma_hold<kRows / 8>(sums_[part]);
  }

  // A lane's sums are of a column and two rows; transposed, of a row and two columns.
  __device__ __forceinline__ void store(Element* out, const Tile& tile, int column) const {
    const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize % 4;
#pragma unroll
    for (int block = 0; block < kRows / 8; ++block) {
      const int row = 8 * block + lane / 4;
      Element* const to = out + static_cast<i64>(tile.place + row) * Product::kWidth;
      const auto put = [&](u32 word, int first) {
        const u32 pair = transposed_8x8(word);
        if (row < tile.rows && first < Product::kWidth)
          *reinterpret_cast<u32*>(to + first + 2 * (lane % 4)) = pair;
      };
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const float(&sums)[4] = sums_[part][block];
        if constexpr (Product::kMatrices == 2) {
          put(Element::pack(gated(sums[0], sums[2]), gated(sums[1], sums[3])), column + 32 * part + 8 * warp);
        } else {
          const int first = column + 64 * part + 16 * warp;
          put(Element::pack(sums[0], sums[1]), first);
          put(Element::pack(sums[2], sums[3]), first + 8);
        }
      }
    }
  }

 private:
  float sums_[kParts][kRows / 8][4] = {};
};

template <typename Product>
using SumsOf = SwappedSums<Product>;

#endif

// A multiplying warpgroup. `place` is its present stage.
template <typename Product>
class Multiplier {
 public:
  __device__ __forceinline__ Multiplier(const Ring<Product>& ring, int group, Place<Product::kStages>& place)
      : ring_(ring), place_(place), group_(group) {}

  // Without any of the tile's rows the warpgroup leaves it to the others.
  __device__ __forceinline__ void multiply(const Tile& tile, Element* out) {
    if (group_ % kRowGroups * (kRows / kRowGroups) >= tile.rows) {
      pass();
      return;
    }
    SumsOf<Product> sums(group_);  // here, so that a launch of both products does not keep those of both
    const int column_group = group_ / kRowGroups;
    int before = 0;  // the stage of the step before
#pragma unroll 1
    for (int step = 0; step < Stages<Product>::kSteps; ++step) {
      const int stage = place_.index;
      mbarrier_wait(ring_.full(stage), place_.parity);
      wgmma_begin();
      sums.add(ring_.rows(stage),
               ring_.weights(stage) + column_group * kSumColumns<Product> * kChunkRowBytes);
      wgmma_commit();
      wgmma_wait<1>();
      if (step > 0) release(before);
      before = stage;
      place_.advance();
    }
    wgmma_wait<0>();
    sums.hold();
    release(before);
    sums.store(out, tile, tile.column + column_group * kOwnColumns<Product>);
  }

 private:
  // Leaves the tile to the others, who have all of its rows.
  __device__ __forceinline__ void pass() {
#pragma unroll 1
    for (int step = 0; step < Stages<Product>::kSteps; ++step) {
      mbarrier_wait(ring_.full(place_.index), place_.parity);
      __syncwarp();  // no lane may miss the phase, which the first one's arrival lets go on
      release(place_.index);
      place_.advance();
    }
  }

  // For the whole warp, whose instructions have read the stage.
  __device__ __forceinline__ void release(int stage) const {
    if (threadIdx.x % kWarpSize == 0) mbarrier_arrive(ring_.empty(stage));
  }

  Ring<Product> ring_;
  Place<Product::kStages>& place_;
  int group_;
};
