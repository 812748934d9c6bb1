// The body for sm_80 and up: all warps copy rows and weights to shared memory with cp.async, and each multiplies up to
// 64 rows by its share of the columns with mma.sync. e4m3 is widened to fp16 in registers, for architectures without
// its instruction too.
#pragma once

#include "templates/common/cp_async.cuh"
#include "templates/common/dependent_launch.cuh"
#include "templates/common/mma.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/unrolled.cuh"
#include "templates/common/vectors.cuh"
#include "templates/moe_experts/store.cuh"
#include "templates/moe_experts/tiles.cuh"

constexpr int kThreads = WARPS * kWarpSize;
constexpr int kUnits = 8;                       // of 16 bytes in a chunk's row
constexpr int kRowsOfCopy = kThreads / kUnits;  // that all threads copy at once
constexpr int kWarpRows = min_of(kRows, 64);
constexpr int kStrips = kWarpRows / 16, kRowWarps = kRows / kWarpRows, kColumnWarps = WARPS / kRowWarps;
static_assert(WARPS % kRowWarps == 0, "warps share rows and columns evenly");

template <typename Product>
class MmaProduct {
  using Ring = Stages<Product>;

 public:
  __device__ __forceinline__ MmaProduct(u8* memory, const Operands<Product>& of)
      : shared_(shared_address(memory)), of_(of), unit_(threadIdx.x % kUnits), row_(threadIdx.x / kUnits) {
    const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
    swizzle_ = lane % 8;
    // ldmatrix takes rows 0-15 of 16 bytes from lanes 0-15, and the same rows of the next 16 bytes from the others; of
    // the weights, whose rows are columns of the product, rows 0-7 of both from the first half.
    first_row_ = warp / kColumnWarps * kWarpRows;
    first_column_ = warp % kColumnWarps * kOwnColumns;
    first_strip_ = warp % kColumnWarps * kOwnStrips;
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
      add(tile, step);
    }
    cp_async_wait<0>();
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip)
      store_strip<Product, kBlocks, kPacked ? 1 : kBlocks>(kNarrow ? totals_[strip] : sums_[strip], of_.out, tile,
                                                           first_row_ + 16 * strip, tile.column + first_column_);
  }

 private:
  static constexpr int kOwnColumns = Product::kColumns / kColumnWarps, kBlocks = kOwnColumns / 8;
  static constexpr int kRowCopies = ceil_div(kRows, kRowsOfCopy);
  static constexpr int kWeightRows = Product::kMatrices * Product::kColumns;
  static constexpr int kOwnStrips = Product::kMatrices * kOwnColumns / kPackedRows;  // of packed weights
  static_assert(kOwnColumns % 16 == 0 && kOwnColumns * kColumnWarps == Product::kColumns, "columns of a warp");

  // Finds this thread's rows, and those whose scales it needs, and forgets the sums.
  __device__ __forceinline__ void begin(const Tile& tile) {
#pragma unroll
    for (int i = 0; i < kRowCopies; ++i) {
      const int row = i * kRowsOfCopy + row_, place = tile.place + row;
      i64 source = row < tile.rows ? place : -1;
      if (Product::kSorted && source >= 0) source = of_.row_of(place);
      rows_[i] = source < 0 ? nullptr : of_.rows + source * of_.row_stride + unit_ * kUnitValues;
    }
    if constexpr (kNarrow) {
#pragma unroll
      for (int i = 0; i < 2 * kStrips; ++i) {
        const int row = first_row_ + 8 * i + static_cast<int>(threadIdx.x) % kWarpSize / 4;
        const int source = Product::kGathers && row < tile.rows ? of_.row_of(tile.place + row) : -1;
        scaled_rows_[i] = Product::kGathers ? max_of(source, 0) : row;
      }
    }
    set_zero(kNarrow ? totals_ : sums_);
  }

  using Sums = float[kStrips][Product::kMatrices * kBlocks][4];

  // Asks for a step of K, if there is one. Rows and columns that do not exist are left as they are in shared memory:
  // what follows from them is not stored. Past the end of K there must be zeros.
  __device__ __forceinline__ void load(const Tile& tile, int step) const {
    if (step < Ring::kSteps) {
      const u32 stage = shared_ + step % Product::kStages * Ring::kBytes;
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        const int k = step * DEPTH + chunk * kChunkValues;
        const bool is_inside = Ring::kWholeSteps || k + unit_ * kUnitValues < Product::kDepth;
        load_rows(stage + chunk * Ring::kRowChunkBytes, k, is_inside);
        if constexpr (kNMajor) load_blocks(tile, stage + Ring::kWeightsOffset + chunk * Ring::kWeightChunkBytes, k);
        if constexpr (!kPacked && !kNMajor)
          load_weights(tile, stage + Ring::kWeightsOffset + chunk * Ring::kWeightChunkBytes, k, is_inside);
      }
      if constexpr (kPacked) load_packed(tile, step);
    }
    cp_async_commit();
  }

  __device__ __forceinline__ void load_rows(u32 to, int k, bool is_inside) const {
#pragma unroll
    for (int i = 0; i < kRowCopies; ++i) {
      const int row = i * kRowsOfCopy + row_;
      if (kRows % kRowsOfCopy != 0 && row >= kRows) break;
      const bool is_there = is_inside && (!kZeroPadding || rows_[i] != nullptr);
      if (kZeroPadding || rows_[i] != nullptr) cp_async_16(to + place_of(row), rows_[i] + (is_there ? k : 0), is_there);
    }
  }

  __device__ __forceinline__ void load_weights(const Tile& tile, u32 to, int k, bool is_inside) const {
    const Operand* const expert =
        of_.weights + tile.expert * of_.weight_expert + (is_inside ? k + unit_ * kUnitValues : 0);
#pragma unroll
    for (int first = 0; first < kWeightRows; first += kRowsOfCopy) {
      const int row = first + row_;
      const int column = tile.column + row % Product::kColumns;
      if (kWeightRows % kRowsOfCopy != 0 && row >= kWeightRows) break;
      if (Product::kWidth % Product::kColumns != 0 && column >= Product::kWidth) continue;
      const int matrix = row / Product::kColumns;
      const i64 weight = kBiased ? Product::kMatrices * column + matrix : matrix * Product::kWidth + column;
      cp_async_16(to + place_of(row), expert + weight * of_.weight_row, is_inside);
    }
  }

  // A column of a tile's weights in memory, counting from the row's first; and whether there is one.
  struct BlockColumn {
    int index;
    bool is_there;
  };
  static __device__ __forceinline__ BlockColumn column_of_blocks(const Tile& tile, int within) {
    if constexpr (kPairs<Product>) return {2 * tile.column + within, 2 * tile.column + within < 2 * Product::kWidth};
    const int column = tile.column + within % Product::kColumns;
    return {within / Product::kColumns * Product::kWidth + column, column < Product::kWidth};
  }

  // Blocks of columns (kNMajor), a thread the same eight of every kRowsOfCopy-th row.
  __device__ __forceinline__ void load_blocks(const Tile& tile, u32 to, int k) const {
    const Operand* const expert = of_.weights + tile.expert * of_.weight_expert;
    constexpr int kAllRows = kWeightRows / kBlockColumns * kChunkValues;
    static_assert(kWeightRows % kBlockColumns == 0 && kChunkValues % kRowsOfCopy == 0, "whole blocks");
#pragma unroll
    for (int first = 0; first < kAllRows; first += kRowsOfCopy) {
      const int row = first + row_, depth = k + row % kChunkValues;
      const BlockColumn column = column_of_blocks(tile, first / kChunkValues * kBlockColumns + unit_ * kUnitValues);
      if (!column.is_there) continue;
      const bool is_inside = Ring::kWholeSteps || depth < Product::kDepth;
      cp_async_16(to + place_of(row), expert + (is_inside ? depth * of_.weight_row : 0) + column.index, is_inside);
    }
  }

  // Blocks of strips, of which values and scales lie as Stages has them. Past the end of K there are zeros.
  __device__ __forceinline__ void load_packed(const Tile& tile, int step) const {
    constexpr int kAllStrips = Product::kMatrices * Product::kWidth / kPackedRows;
    constexpr int kBlockUnits = (kPackedValueBytes + kPackedScaleBytes) / 16, kValueUnits = kPackedValueBytes / 16;
    constexpr int kUnitsOfStage = Ring::kPackedStrips * kChunks * kBlockUnits;
    const int stage = step % Product::kStages, first = Product::kMatrices * tile.column / kPackedRows;
    const u32 values = shared_ + stage * Ring::kBytes + Ring::kWeightsOffset,
              scales = shared_ + Ring::kScalesOffset + stage * Ring::kScaleBytes;
    for (int i = threadIdx.x; i < kUnitsOfStage; i += kThreads) {
      const int block = i / kBlockUnits, unit = i % kBlockUnits;
      const int strip = first + block / kChunks, depth = step * kChunks + block % kChunks;
      if (strip >= kAllStrips) continue;
      const bool is_inside = depth < Ring::kDepthBlocks, is_value = unit < kValueUnits;
      const i64 source =
          (static_cast<i64>(tile.expert) * kAllStrips + strip) * Ring::kDepthBlocks + (is_inside ? depth : 0);
      if (is_value) {
        cp_async_16(values + block * kPackedValueBytes + 16 * unit,
                    reinterpret_cast<const u8*>(of_.weights) + source * kPackedValueBytes + 16 * unit, is_inside);
      } else {
        const int own = 16 * (unit - kValueUnits);
        cp_async_16(scales + block * kPackedScaleBytes + own,
                    static_cast<const u8*>(of_.weight_scales) + source * kPackedScaleBytes + own, is_inside);
      }
    }
  }

  __device__ __forceinline__ u32 place_of(int row) const { return row * kChunkRowBytes + ((unit_ ^ row % 8) << 4); }
  // The place of 16-byte unit `index` of a chunk's row, in the rows that this lane addresses.
  __device__ __forceinline__ u32 unit(int index) const { return (index ^ swizzle_) << 4; }

  __device__ __forceinline__ void add(const Tile& tile, int step) {
    const u32 stage = shared_ + step % Product::kStages * Ring::kBytes;
    if constexpr (kNarrow) {
#pragma unroll
      for (int group = 0; group < Ring::kGroups; ++group) {
        const int k = step * DEPTH + group * Product::kScaled;
        set_zero(sums_);
        add_units(stage, group * Ring::kGroupUnits);
        promote(tile, k);
      }
    } else if constexpr (kPacked) {
      add_packed(step % Product::kStages);
    } else {
      add_units(stage, 0);
    }
  }

  // A stage's products by packed weights.
  __device__ __forceinline__ void add_packed(int stage) {
    const int lane = threadIdx.x % kWarpSize;
    const u8* const memory = dynamic_shared();
    const u8* const values = memory + stage * Ring::kBytes + Ring::kWeightsOffset + 16 * lane;
    const u8* const scales = memory + Ring::kScalesOffset + stage * Ring::kScaleBytes + lane / 4 * 4;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      VectorOf<16> words[kOwnStrips];
      u32 factors[kOwnStrips][2][2];
#pragma unroll
      for (int strip = 0; strip < kOwnStrips; ++strip) {
        const int block = (first_strip_ + strip) * kChunks + chunk;
        words[strip] = load_vector<16>(values + block * kPackedValueBytes);
        unpack_scales(*reinterpret_cast<const u32*>(scales + block * kPackedScaleBytes), factors[strip]);
      }
#pragma unroll
      for (int within = 0; within < kPackedDepth / 16; ++within) {
        u32 rows[kStrips][4];
        const u32 row =
            shared_ + stage * Ring::kBytes + chunk * Ring::kRowChunkBytes + tall_row_ + unit(2 * within + tall_unit_);
#pragma unroll
        for (int strip = 0; strip < kStrips; ++strip) ldmatrix(rows[strip], row + strip * 16 * kChunkRowBytes);
#pragma unroll
        for (int own = 0; own < kOwnStrips; ++own) {
          u32 columns[4];
          unpack_values(words[own].words[within], factors[own][within / 2], columns);
#pragma unroll
          for (int strip = 0; strip < kStrips; ++strip) {
            mma_16816<Element>(sums_[strip][2 * own], rows[strip], columns[0], columns[2]);
            mma_16816<Element>(sums_[strip][2 * own + 1], rows[strip], columns[1], columns[3]);
          }
        }
      }
    }
  }

  // A group's products of 32 bytes of K, the first of which is `first`.
  __device__ __forceinline__ void add_units(u32 stage, int first) {
#pragma unroll
    for (int step = first; step < first + Ring::kGroupUnits; ++step) {
      const int chunk = step / 4, within = step % 4 * 2;
      u32 rows[kStrips][4];
      const u32 row = stage + chunk * Ring::kRowChunkBytes + tall_row_ + unit(within + tall_unit_);
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) ldmatrix(rows[strip], row + strip * 16 * kChunkRowBytes);
      if constexpr (kNMajor) {
        add_blocks(stage + Ring::kWeightsOffset + chunk * Ring::kWeightChunkBytes + step % 4 * 16 * kChunkRowBytes,
                   rows);
        continue;
      }
      const u32 column =
          stage + Ring::kWeightsOffset + chunk * Ring::kWeightChunkBytes + wide_row_ + unit(within + wide_unit_);
#pragma unroll
      for (int matrix = 0; matrix < Product::kMatrices; ++matrix) {
#pragma unroll
        for (int pair = 0; pair < kBlocks / 2; ++pair) {
          u32 columns[4];
          ldmatrix(columns, column + (matrix * Product::kColumns + pair * 16) * kChunkRowBytes);
          const int j = matrix * kBlocks + 2 * pair;
#pragma unroll
          for (int strip = 0; strip < kStrips; ++strip) {
            add_product(sums_[strip][j], rows[strip], columns[0], columns[1]);
            add_product(sums_[strip][j + 1], rows[strip], columns[2], columns[3]);
          }
        }
      }
    }
  }

  // The products of rows with 16 values of K of blocks of columns, which begin at `deep`. ldmatrix takes rows of K 0-7
  // and 8-15 of eight columns, and the same of the next eight.
  __device__ __forceinline__ void add_blocks(u32 deep, const u32 (&rows)[kStrips][4]) {
    const u32 own = deep + threadIdx.x % 16 * kChunkRowBytes;
#pragma unroll
    for (int pair = 0; pair < Product::kMatrices * kBlocks / 2; ++pair) {
      const int within = kPairs<Product>
                             ? 2 * first_column_ + 16 * pair
                             : 16 * pair / kOwnColumns * Product::kColumns + first_column_ + 16 * pair % kOwnColumns;
      u32 columns[4];
      ldmatrix_transposed(columns,
                          own + within / kBlockColumns * kBlockBytes + unit(within % kBlockColumns / 8 + tall_unit_));
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) {
        mma_16816<Element>(sums_[strip][2 * pair], rows[strip], columns[0], columns[1]);
        mma_16816<Element>(sums_[strip][2 * pair + 1], rows[strip], columns[2], columns[3]);
      }
    }
  }

  // A lane has four e4m3 of 16 where it would have two of 16-bit ones, and the next 16 in the next word. Which of K
  // they are is the same for rows and columns, and no matter.
  static __device__ __forceinline__ void add_product(float (&sum)[4], const u32 (&rows)[4], u32 low, u32 high) {
    if constexpr (kNarrow) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint2 top = widen_e4m3x4(rows[2 * half]), bottom = widen_e4m3x4(rows[2 * half + 1]),
                    columns = widen_e4m3x4(half == 0 ? low : high);
        const u32 wide[4] = {top.x, bottom.x, top.y, bottom.y};
        mma_16816<Fp16>(sum, wide, columns.x, columns.y);
      }
    } else {
      mma_16816<Element>(sum, rows, low, high);
    }
  }

  // Adds a group's sums, which begins at `k`, to the totals.
  __device__ __forceinline__ void promote(const Tile& tile, int k) {
    constexpr int kColumnBlocks = Product::kMatrices * Product::kWidth / kScaleGroup,
                  kDepthBlocks = Product::kDepth / kScaleGroup;
    float of_weights[Product::kMatrices];
#pragma unroll
    for (int matrix = 0; matrix < Product::kMatrices; ++matrix) {
      const int block = (tile.column + first_column_ + matrix * Product::kWidth) / kScaleGroup;
      of_weights[matrix] = static_cast<const float*>(
          of_.weight_scales)[(static_cast<i64>(tile.expert) * kColumnBlocks + min_of(block, kColumnBlocks - 1)) *
                                 kDepthBlocks +
                             k / kScaleGroup];
    }
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = scaled_rows_[2 * strip + half];
        const float of_row = of_.scales[Product::kGathers ? static_cast<i64>(row) * kDepthBlocks + k / kScaleGroup
                                                          : between_scale(tile.row, k) + row];
#pragma unroll
        for (int j = 0; j < Product::kMatrices * kBlocks; ++j) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i)
            totals_[strip][j][i] =
                __fmaf_rn(sums_[strip][j][i], of_row * of_weights[j / kBlocks], totals_[strip][j][i]);
        }
      }
    }
  }

  u32 shared_;
  const Operands<Product>& of_;
  int unit_, row_;  // that this thread copies
  int swizzle_, first_row_, first_column_, first_strip_;
  u32 tall_row_, wide_row_;
  int tall_unit_, wide_unit_;
  const Operand* rows_[kRowCopies];  // nullptr if there is none
  int scaled_rows_[2 * kStrips];     // of x, or of the tile
  Sums sums_, totals_;
};

template <typename Product>
__device__ __forceinline__ void multiply_tiles(const Operands<Product>& of, const int* offsets, int places,
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

#if HAS_UP
extern "C" __global__ void __launch_bounds__(kThreads, RESIDENTS)
    moe_experts_up(const Operand* x, i64 x_row, const float* x_scale, const int* sorted, const int* offsets,
                   const Operand* weights, i64 weight_row, i64 weight_expert, const void* weight_scales,
                   const Element* bias, Between* between, float* between_scales, int tokens, int places,
                   int row_tiles) {
  multiply_tiles<Up>({x,
                      x_row,
                      x_scale,
                      sorted,
                      weights,
                      weight_row,
                      weight_expert,
                      weight_scales,
                      {between, between_scales, bias},
                      tokens},
                     offsets, places, row_tiles);
}

#endif

#if HAS_DOWN
extern "C" __global__ void __launch_bounds__(kThreads, RESIDENTS)
    moe_experts_down(const Operand* between, const int* offsets, const Operand* weights, i64 weight_row,
                     i64 weight_expert, const void* weight_scales, const Element* bias, const float* between_scales,
                     Element* products, int places, int row_tiles) {
  multiply_tiles<Down>({between,
                        kIntermediate,
                        between_scales,
                        nullptr,
                        weights,
                        weight_row,
                        weight_expert,
                        weight_scales,
                        {products, nullptr, bias},
                        0},
                       offsets, places, row_tiles);
}
#endif
