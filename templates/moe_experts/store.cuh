// Rows of a product on their way to memory. Lanes hold sums as mma.sync m16n8 leaves them, and as wgmma does: of strip
// row lane / 4, and of the one 8 below, columns 2 * (lane % 4) and the next of every 8.
#pragma once

#include "templates/common/quad.cuh"
#include "templates/common/quantize.cuh"
#include "templates/moe_experts/tiles.cuh"

// Stores a row's 8 * kBlocks columns from `to` on, of which `columns` exist. All lanes of a warp call it, four of which
// have a row: words[j] are this lane's two columns of block j.
template <int kBlocks>
__device__ __forceinline__ void store_row(Element* to, const u32 (&words)[kBlocks], int columns, bool is_row) {
  const int quad = threadIdx.x % 4;
  if constexpr (kBlocks % 4 == 0) {
#pragma unroll
    for (int j = 0; j < kBlocks; j += 4) {
      u32 four[4] = {words[j], words[j + 1], words[j + 2], words[j + 3]};
      transpose_quad(four);
      const int column = 8 * (j + quad);
      if (is_row && column < columns)
        *reinterpret_cast<uint4*>(to + column) = make_uint4(four[0], four[1], four[2], four[3]);
    }
  } else {
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      if (is_row && 8 * j < columns) *reinterpret_cast<u32*>(to + 8 * j + 2 * quad) = words[j];
    }
  }
}

// Stores a row's 8 * kBlocks bytes at `to`, like store_row: pairs[j] are this lane's two bytes of block j.
template <int kBlocks>
__device__ __forceinline__ void store_row_bytes(u8* to, const u32 (&pairs)[kBlocks], bool is_row) {
  const int quad = threadIdx.x % 4;
  if constexpr (kBlocks % 8 == 0) {
#pragma unroll
    for (int j = 0; j < kBlocks; j += 8) {
      u32 four[4];
#pragma unroll
      for (int w = 0; w < 4; ++w) four[w] = pairs[j + 2 * w] | pairs[j + 2 * w + 1] << 16;
      transpose_quad(four);
      if (is_row)
        *reinterpret_cast<uint4*>(to + 8 * (j + 2 * quad)) =
            make_uint4(__byte_perm(four[0], four[1], 0x5410), __byte_perm(four[2], four[3], 0x5410),
                       __byte_perm(four[0], four[1], 0x7632), __byte_perm(four[2], four[3], 0x7632));
    }
  } else {
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      if (is_row) *reinterpret_cast<u16*>(to + 8 * j + 2 * quad) = static_cast<u16>(pairs[j]);
    }
  }
}

// A row of a strip of the first product as e4m3, with one scale for these columns.
template <typename Product, int kBlocks, int kTurn>
__device__ __forceinline__ void store_quantized(const float (*sums)[4], const Output<Product>& to, const Tile& tile,
                                                int row, int half, int first_column) {
  float values[kBlocks][2], largest = 0;
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int gate = j / kTurn * kTurn * 2 + j % kTurn;
      values[j][i] = gated(sums[gate][2 * half + i], sums[gate + kTurn][2 * half + i]);
      largest = fmaxf(largest, fabsf(values[j][i]));
    }
  }
#pragma unroll
  for (int distance = 1; distance <= 2; distance *= 2)
    largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, distance));
  const float scale = scale_of(largest), inverse = inverse_of(scale);
  const bool is_row = row < tile.rows;
  if (is_row && threadIdx.x % 4 == 0) to.scales[between_scale(tile.row, first_column) + row] = scale;
  u32 pairs[kBlocks];
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) pairs[j] = quantize_pair(values[j][0], values[j][1], inverse);
  store_row_bytes<kBlocks>(&to.values->bits + static_cast<i64>(tile.place + row) * Product::kWidth + first_column,
                           pairs, is_row);
}

// A lane of four has columns c and c + 4 of eight, in the halves of a word; it gets 2 * c and 2 * c + 1.
__device__ __forceinline__ u32 neighbours_of_quad(u32 word) {
  const int lane = threadIdx.x % kWarpSize, first = lane / 4 * 4 + 2 * lane % 4;
  const u32 low = __shfl_sync(kWholeWarp, word, first), high = __shfl_sync(kWholeWarp, word, first + 1);
  return __byte_perm(low, high, lane % 4 < 2 ? 0x5410 : 0x7632);
}

// This lane's words of a row of pairs (kPairs): blocks 2 * j and the next have both matrices of eight columns.
template <typename Product, int kBlocks>
__device__ __forceinline__ void gate_pairs(const float (*sums)[4], const Output<Product>& to, const Tile& tile,
                                           int half, int first_column, u32 (&words)[kBlocks]) {
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
    float values[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float* const own = sums[2 * j + i] + 2 * half;
      const int column = min_of(first_column + 8 * j + 4 * i + static_cast<int>(threadIdx.x % 4), Product::kWidth - 1);
      const auto bias = to.bias(tile.expert, column);
      values[i] = gated(own[0] + bias.of[0], own[1] + bias.of[1]);
    }
    words[j] = neighbours_of_quad(Element::pack(values[0], values[1]));
  }
}

// Stores a strip of 16 rows: `first_row` of the tile, columns from `first_column` of the weights on. With two matrices
// the sums of up take turns with gate's, kTurn blocks of eight columns of each; or are pairs (kPairs).
template <typename Product, int kBlocks, int kTurn>
__device__ __forceinline__ void store_strip(const float (*sums)[4], const Output<Product>& to, const Tile& tile,
                                            int first_row, int first_column) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + static_cast<int>(threadIdx.x) % kWarpSize / 4 + 8 * half;
    if constexpr (kQuantizes && Product::kMatrices == 2) {
      store_quantized<Product, kBlocks, kTurn>(sums, to, tile, row, half, first_column);
    } else if constexpr (kPairs<Product>) {
      u32 words[kBlocks];
      gate_pairs<Product>(sums, to, tile, half, first_column, words);
      store_row<kBlocks>(to.values + static_cast<i64>(tile.place + row) * Product::kWidth + first_column, words,
                         Product::kWidth - first_column, row < tile.rows);
    } else {
      u32 words[kBlocks];
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) {
        const int gate = j / kTurn * kTurn * Product::kMatrices + j % kTurn;
        const float* const own = sums[gate] + 2 * half;
        const int column = min_of(first_column + 8 * j + 2 * static_cast<int>(threadIdx.x % 4), Product::kWidth - 2);
        const auto first = to.bias(tile.expert, column), second = to.bias(tile.expert, column + 1);
        const float low = own[0] + first.of[0], high = own[1] + second.of[0];
        if constexpr (Product::kMatrices == 2) {
          const float* const up = sums[gate + kTurn] + 2 * half;
          words[j] = Element::pack(gated(low, up[0] + first.of[1]), gated(high, up[1] + second.of[1]));
        } else {
          words[j] = Element::pack(low, high);
        }
      }
      store_row<kBlocks>(to.values + static_cast<i64>(tile.place + row) * Product::kWidth + first_column, words,
                         Product::kWidth - first_column, row < tile.rows);
    }
  }
}
