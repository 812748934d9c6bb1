// The body for sm_80 and up: all warps copy rows and weights to shared memory with cp.async, and each multiplies up to
// 64 rows by its share of the columns with mma.sync.
#pragma once

#include "templates/common/cp_async.cuh"
#include "templates/common/dependent_launch.cuh"
#include "templates/common/l2_policy.cuh"
#include "templates/common/mma.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/moe_experts/store.cuh"
#include "templates/moe_experts/tiles.cuh"

constexpr int kThreads = WARPS * kWarpSize;
constexpr int kUnits = 8;                       // of 16 bytes in a chunk's row
constexpr int kRowsOfCopy = kThreads / kUnits;  // that all threads copy at once
constexpr int kWarpRows = min_of(kRows, 64);
constexpr int kStrips = kWarpRows / 16, kRowWarps = kRows / kWarpRows, kColumnWarps = WARPS / kRowWarps;
static_assert(WARPS % kRowWarps == 0, "warps share rows and columns evenly");

static_assert(!kNarrow, "e4m3 is for wgmma");

template <typename Product>
class MmaProduct {
  using Ring = Stages<Product>;

 public:
  __device__ __forceinline__ MmaProduct(u8* memory, const Operands& of)
      : shared_(in_vector_register(shared_address(memory))),
        of_(of),
        unit_(threadIdx.x % kUnits),
        row_(threadIdx.x / kUnits) {
    const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
    swizzle_ = lane % 8;
    // ldmatrix takes rows 0-15 of 16 bytes from lanes 0-15, and the same rows of the next 16 bytes from the others; of
    // the weights, whose rows are columns of the product, rows 0-7 of both from the first half.
    first_row_ = warp / kColumnWarps * kWarpRows;
    first_column_ = warp % kColumnWarps * kOwnColumns;
    tall_row_ = (first_row_ + lane % 16) * kChunkRowBytes;
    tall_unit_ = lane / 16;
    wide_row_ = (first_column_ + lane / 16 * 8 + lane % 8) * kChunkRowBytes;
    wide_unit_ = lane / 8 % 2;
  }

  __device__ __forceinline__ void multiply(const Tile& tile) {
    begin(tile);
    __syncthreads();  // all warps have read the stages of the tile before
#pragma unroll
    for (int step = 0; step < Product::kStages - 1; ++step) load(tile, step);
#pragma unroll 1
    for (int step = 0; step < Ring::kSteps; ++step) {
      cp_async_wait<Product::kStages - 2>();
      __syncthreads();
      load(tile, step + Product::kStages - 1);
      add(step % Product::kStages * Ring::kBytes);
    }
    cp_async_wait<0>();
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip)
      store_strip<Product, kBlocks, false>(sums_[strip], Output<Product>{of_.out, nullptr}, tile,
                                           first_row_ + 16 * strip, tile.column + first_column_);
  }

 private:
  static constexpr int kOwnColumns = Product::kColumns / kColumnWarps, kBlocks = kOwnColumns / 8;
  static constexpr int kRowCopies = ceil_div(kRows, kRowsOfCopy);
  static constexpr int kWeightRows = Product::kMatrices * Product::kColumns;
  static_assert(kOwnColumns % 16 == 0 && kOwnColumns * kColumnWarps == Product::kColumns,
                "columns of a warp");

  // Finds this thread's rows, and forgets the sums.
  __device__ __forceinline__ void begin(const Tile& tile) {
#pragma unroll
    for (int i = 0; i < kRowCopies; ++i) {
      const int row = i * kRowsOfCopy + row_, place = tile.place + row;
      i64 source = row < tile.rows ? place : -1;
      if (Product::kGathers && source >= 0) source = token_of(of_.sorted[place], of_.tokens);
      rows_[i] = source < 0 ? nullptr : of_.rows + source * of_.row_stride + unit_ * 8;
    }
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
#pragma unroll
      for (int j = 0; j < Product::kMatrices * kBlocks; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums_[strip][j][i] = 0;
      }
    }
  }

  // Asks for a step of K, if there is one. Rows and columns that do not exist are left as they are in shared memory:
  // what follows from them is not stored. Past the end of K there must be zeros.
  __device__ __forceinline__ void load(const Tile& tile, int step) const {
    if (step < Ring::kSteps) {
      const u32 stage = shared_ + step % Product::kStages * Ring::kBytes;
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        const int k = step * DEPTH + chunk * kChunkValues;
        const bool is_inside = Ring::kWholeSteps || k + unit_ * 8 < Product::kDepth;
        load_rows(stage + chunk * Ring::kRowChunkBytes, k, is_inside);
        load_weights(tile, stage + Ring::kWeightsOffset + chunk * Ring::kWeightChunkBytes, k, is_inside);
      }
    }
    cp_async_commit();
  }

  __device__ __forceinline__ void load_rows(u32 to, int k, bool is_inside) const {
    const u64 policy = l2_policy(false);
#pragma unroll
    for (int i = 0; i < kRowCopies; ++i) {
      const int row = i * kRowsOfCopy + row_;
      if (rows_[i] != nullptr)
        cp_async_16(to + place_of(row), rows_[i] + (is_inside ? k : 0), is_inside, policy);
    }
  }

  __device__ __forceinline__ void load_weights(const Tile& tile, u32 to, int k, bool is_inside) const {
    const u64 policy = l2_policy(STREAM && tile.is_only);
    const Element* const expert =
        of_.weights + tile.expert * of_.weight_expert + (is_inside ? k + unit_ * 8 : 0);
#pragma unroll
    for (int first = 0; first < kWeightRows; first += kRowsOfCopy) {
      const int row = first + row_;
      const int column = tile.column + row % Product::kColumns;
      if (kWeightRows % kRowsOfCopy != 0 && row >= kWeightRows) break;
      if (Product::kWidth % Product::kColumns != 0 && column >= Product::kWidth) continue;
      const i64 weight = row / Product::kColumns * Product::kWidth + column;
      cp_async_16(to + place_of(row), expert + weight * of_.weight_row, is_inside, policy);
    }
  }

  __device__ __forceinline__ u32 place_of(int row) const {
    return row * kChunkRowBytes + ((unit_ ^ row % 8) << 4);
  }
  // Where 16-byte unit `index` of a chunk's row lies, in the rows that this lane addresses.
  __device__ __forceinline__ u32 unit(int index) const { return (index ^ swizzle_) << 4; }

  __device__ __forceinline__ void add(u32 offset) {
    const u32 stage = shared_ + offset;
#pragma unroll
    for (int step = 0; step < DEPTH / 16; ++step) {
      const int chunk = step / 4, within = step % 4 * 2;
      u32 rows[kStrips][4];
      const u32 row = stage + chunk * Ring::kRowChunkBytes + tall_row_ + unit(within + tall_unit_);
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) ldmatrix(rows[strip], row + strip * 16 * kChunkRowBytes);
      const u32 column = stage + Ring::kWeightsOffset + chunk * Ring::kWeightChunkBytes + wide_row_ +
                         unit(within + wide_unit_);
#pragma unroll
      for (int matrix = 0; matrix < Product::kMatrices; ++matrix) {
#pragma unroll
        for (int pair = 0; pair < kBlocks / 2; ++pair) {
          u32 columns[4];
          ldmatrix(columns, column + (matrix * Product::kColumns + pair * 16) * kChunkRowBytes);
          const int j = matrix * kBlocks + 2 * pair;
#pragma unroll
          for (int strip = 0; strip < kStrips; ++strip) {
            mma_16816<Element>(sums_[strip][j], rows[strip], columns[0], columns[1]);
            mma_16816<Element>(sums_[strip][j + 1], rows[strip], columns[2], columns[3]);
          }
        }
      }
    }
  }

  u32 shared_;
  const Operands& of_;
  int unit_, row_;  // that this thread copies
  int swizzle_, first_row_, first_column_;
  u32 tall_row_, wide_row_;
  int tall_unit_, wide_unit_;
  const Element* rows_[kRowCopies];  // nullptr if there is none
  float sums_[kStrips][Product::kMatrices * kBlocks][4];
};

template <typename Product>
__device__ __forceinline__ void multiply_tiles(const Operands& of, const int* offsets, int places,
                                               int row_tiles) {
  wait_for_predecessor();
  allow_dependent_launch();
  u8* const memory = dynamic_shared();
  const TileList tiles(memory + Stages<Product>::kTilesOffset);
  tiles.make<kThreads>(offsets, places, row_tiles);
  MmaProduct<Product> product(memory, of);
  Tile tile;
  for (int index = blockIdx.x; tiles.find<Product>(index, tile); index += gridDim.x) product.multiply(tile);
}

extern "C" __global__ void __launch_bounds__(kThreads, RESIDENTS)
    moe_experts_up(const Element* x, i64 x_row, const int* sorted, const int* offsets, const Element* weights,
                   i64 weight_row, i64 weight_expert, Element* between, int tokens, int places,
                   int row_tiles) {
  multiply_tiles<Up>({x, x_row, nullptr, sorted, weights, weight_row, weight_expert, between, tokens},
                     offsets, places, row_tiles);
}

extern "C" __global__ void __launch_bounds__(kThreads, RESIDENTS)
    moe_experts_down(const Element* between, const int* offsets, const Element* weights, i64 weight_row,
                     i64 weight_expert, Element* products, int places, int row_tiles) {
  multiply_tiles<Down>(
      {between, kIntermediate, nullptr, nullptr, weights, weight_row, weight_expert, products, 0}, offsets,
      places, row_tiles);
}
