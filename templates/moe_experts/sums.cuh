// Sums of a warpgroup of moe_experts over a tile, by wgmma from the stages of ring.cuh, and how they are stored. With
// two matrices, eight columns of gate are followed by the same eight of up.
//
// With kNMajor, 64 columns of gate are followed by 64 of up, or they are pairs.
//
// With scales (kNarrow), instructions sum up a group of K that shares its scales, and what they made is added to totals
// in fp32: wgmma keeps fewer bits of the sums of e4m3.
#pragma once

#include "templates/common/barrier.cuh"
#include "templates/common/mma.cuh"
#include "templates/common/vectors.cuh"
#include "templates/common/wgmma.cuh"
#include "templates/moe_experts/ring.cuh"
#include "templates/moe_experts/store.cuh"

// A lane's scales of weights: one for 128 by 128 of them.
template <typename Product>
constexpr int kWeightScales = Product::kMatrices == 2 ? 2 : ceil_div(kOwnColumns<Product>, kScaleGroup);

// The weights of a chunk as an instruction's operand, and the bytes from 16 values of K to the next.
__device__ __forceinline__ u64 weight_matrix(u32 address) {
  return kNMajor ? WgmmaMatrix::columns(address, kBlockBytes) : WgmmaMatrix::rows(address);
}
constexpr int kWeightStep = kNMajor ? 16 * kChunkRowBytes : 32;

#if !SWAPPED  // which packed weights are never multiplied by

// Rows are the instruction's rows: strips of 64, by the warpgroup's columns.
template <typename Product>
class PlainSums {
 public:
  static constexpr int kStrips = kRows / 64 / kRowGroups;

  __device__ __forceinline__ PlainSums(int group, int&) : first_row_(group % kRowGroups * kStrips * 64) {}

  // Issues the instructions of a group of K, the first of which is `first`, of a stage that begins with these chunks.
  __device__ __forceinline__ void add(u32 rows_chunk, u32 weights_chunk, int first) {
    const u64 rows = WgmmaMatrix::rows(rows_chunk + first_row_ * kChunkRowBytes);
    const u64 weights = weight_matrix(weights_chunk);
#pragma unroll
    for (int step = first; step < first + Stages<Product>::kGroupUnits; ++step) {
      const int chunk = step / 4, within = step % 4 * 32;
      const u64 b = WgmmaMatrix::moved(weights, chunk * Stages<Product>::kWeightChunkBytes + step % 4 * kWeightStep);
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) {
        const u64 a =
            WgmmaMatrix::moved(rows, chunk * Stages<Product>::kRowChunkBytes + strip * 64 * kChunkRowBytes + within);
        wgmma<Operand, kSumColumns<Product>, false, kNMajor>(sums_[strip], a, b, !kNarrow || step > first);
      }
    }
  }

  __device__ __forceinline__ void hold() {
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) wgmma_hold<kSumColumns<Product> / 8>(sums_[strip]);
  }

  // The scales of a lane's rows, of all of a tile's.
  struct RowScales {
    float of[kStrips][2];
  };
  __device__ __forceinline__ RowScales row_scales(const float* scales) const {
    RowScales own;
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        own.of[strip][half] =
            scales[first_row() + 64 * strip + static_cast<int>(threadIdx.x) % kWarpSize / 4 + 8 * half];
    }
    return own;
  }

  // Adds the sums of a group, which hold() has kept, to the totals.
  __device__ __forceinline__ void promote(const RowScales& rows, const float (&weights)[kWeightScales<Product>]) {
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
#pragma unroll
      for (int j = 0; j < kSumColumns<Product> / 8; ++j) {
        const float weight = weights[Product::kMatrices == 2 ? j % 2 : 8 * j / kScaleGroup];
#pragma unroll
        for (int v = 0; v < 4; ++v)
          totals_[strip][j][v] = __fmaf_rn(sums_[strip][j][v], rows.of[strip][v / 2] * weight, totals_[strip][j][v]);
      }
    }
  }

  __device__ __forceinline__ void store(const Output<Product>& to, const Tile& tile, int column) const {
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip)
      store_strip<Product, kOwnColumns<Product> / 8, kNMajor ? 8 : 1>(kNarrow ? totals_[strip] : sums_[strip], to, tile,
                                                                      first_row() + 64 * strip, column);
  }

 private:
  __device__ __forceinline__ int first_row() const {
    return first_row_ + static_cast<int>(threadIdx.x) / kWarpSize % 4 * 16;
  }

  int first_row_;
  float sums_[kStrips][kSumColumns<Product> / 8][4] = {};
  float totals_[kNarrow ? kStrips : 1][kSumColumns<Product> / 8][4] = {};
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

  __device__ __forceinline__ SwappedSums(int, int& turn) : turn_(turn) {}

  __device__ __forceinline__ void add(u32 rows_chunk, u32 weights_chunk, int first) {
    const u64 rows = WgmmaMatrix::rows(rows_chunk), weights = weight_matrix(weights_chunk);
#pragma unroll
    for (int step = first; step < first + Stages<Product>::kGroupUnits; ++step) {
      const int chunk = step / 4, within = step % 4 * 32;
      const u64 b = WgmmaMatrix::moved(rows, chunk * Stages<Product>::kRowChunkBytes + within);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const u64 a = WgmmaMatrix::moved(
            weights, chunk * Stages<Product>::kWeightChunkBytes + part * 64 * kChunkRowBytes + step % 4 * kWeightStep);
        wgmma<Operand, kRows, kNMajor, false>(sums_[part], a, b, !kNarrow || step > first);
      }
    }
  }

  // The same of packed weights, by units: 64 of their rows by a chunk of K, of which a warp has a strip. Its fragments
  // belong to the instructions until they have ended.
  static constexpr int kUnits = kParts * kChunks;
  using Fragments = u32[kPackedDepth / 16][4];

  struct Packed {
    VectorOf<16> values;
    u32 scales;
  };

  // `values` and `scales` are those of the warpgroup's strips.
  static __device__ __forceinline__ Packed load(const u8* values, const u8* scales, int unit) {
    const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize % 4;
    const int block = (unit % kParts * 4 + warp) * kChunks + unit / kParts;
    return {load_vector<16>(values + block * kPackedValueBytes + 16 * lane),
            *reinterpret_cast<const u32*>(scales + block * kPackedScaleBytes + lane / 4 * 4)};
  }

  static __device__ __forceinline__ void unpack(const Packed& packed, Fragments& fragments) {
    u32 factors[2][2];
    unpack_scales(packed.scales, factors);
#pragma unroll
    for (int step = 0; step < kPackedDepth / 16; ++step)
      unpack_values(packed.values.words[step], factors[step / 2], fragments[step]);
  }

  __device__ __forceinline__ void add_unit(u32 rows_chunk, int unit, const Fragments& fragments) {
    const u64 rows = WgmmaMatrix::moved(WgmmaMatrix::rows(rows_chunk), unit / kParts * Stages<Product>::kRowChunkBytes);
#pragma unroll
    for (int step = 0; step < kPackedDepth / 16; ++step)
      wgmma_registers<Element, kRows, false>(sums_[unit % kParts], fragments[step],
                                             WgmmaMatrix::moved(rows, 32 * step));
  }

  __device__ __forceinline__ void hold() {
#pragma unroll
    for (int part = 0; part < kParts; ++part) wgmma_hold<kRows / 8>(sums_[part]);
  }

  struct RowScales {
    float of[kRows / 8][2];
  };
  __device__ __forceinline__ RowScales row_scales(const float* scales) const {
    RowScales own;
#pragma unroll
    for (int block = 0; block < kRows / 8; ++block) {
#pragma unroll
      for (int i = 0; i < 2; ++i) own.of[block][i] = scales[8 * block + 2 * (threadIdx.x % 4) + i];
    }
    return own;
  }

  __device__ __forceinline__ void promote(const RowScales& rows, const float (&weights)[kWeightScales<Product>]) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int block = 0; block < kRows / 8; ++block) {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          const float weight = weights[Product::kMatrices == 2 ? v / 2 : 64 * part / kScaleGroup];
          totals_[part][block][v] =
              __fmaf_rn(sums_[part][block][v], rows.of[block][v % 2] * weight, totals_[part][block][v]);
        }
      }
    }
  }

  // A lane's sums are of a column and two rows; transposed, of a row and two columns.
  __device__ __forceinline__ void store(const Output<Product>& to, const Tile& tile, int column) {
    if constexpr (kQuantizes && Product::kMatrices == 2) {
      store_quantized(to, tile, column);
      return;
    } else {
      const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize % 4;
      if constexpr (!kPairs<Product>) add_biases(to, tile.expert, column);
#pragma unroll
      for (int block = 0; block < kRows / 8; ++block) {
        const int row = 8 * block + lane / 4;
        Element* const own = to.values + static_cast<i64>(tile.place + row) * Product::kWidth;
        const auto put = [&](u32 word, int first) {
          const u32 turned = transposed_8x8(word);
          const u32 pair = kPairs<Product> ? neighbours_of_quad(turned) : turned;
          if (row < tile.rows && first < Product::kWidth) *reinterpret_cast<u32*>(own + first + 2 * (lane % 4)) = pair;
        };
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const float(&sums)[4] = kNarrow ? totals_[part][block] : sums_[part][block];
          if constexpr (kPairs<Product>) {
            const int first = column + 32 * part + 8 * warp;
            put(gated_pair(sums, to, tile.expert, first), first);
          } else if constexpr (kNMajor && Product::kMatrices == 2) {
            if (part % 2 == 1) continue;  // up
            const float(&up)[4] = sums_[part + 1][block];
            const int first = column + 32 * part + 16 * warp;
            put(Element::pack(gated(sums[0], up[0]), gated(sums[1], up[1])), first);
            put(Element::pack(gated(sums[2], up[2]), gated(sums[3], up[3])), first + 8);
          } else if constexpr (Product::kMatrices == 2) {
            put(Element::pack(gated(sums[0], sums[2]), gated(sums[1], sums[3])), column + 32 * part + 8 * warp);
          } else {
            const int first = column + 64 * part + 16 * warp;
            put(Element::pack(sums[0], sums[1]), first);
            put(Element::pack(sums[2], sums[3]), first + 8);
          }
        }
      }
    }
  }

 private:
  // With pairs (kPairs) a lane has a matrix of a column and of the fourth from it on, and the lane beside it the other
  // matrix of both: each makes one of them. In turn they are columns 0 and 4, 1 and 5 and so on.
  static __device__ __forceinline__ u32 gated_pair(const float (&sums)[4], const Output<Product>& to, int expert,
                                                   int first) {
    const int position = static_cast<int>(threadIdx.x) % kWarpSize / 4;
    const bool is_up = position % 2 == 1;
    const int own = first + position / 2 + (is_up ? 4 : 0);
    const auto bias = to.bias(expert, min_of(own, Product::kWidth - 1));
    float values[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float other = __shfl_xor_sync(kWholeWarp, is_up ? sums[i] : sums[2 + i], 4);
      const float gate = is_up ? other : sums[i], up = is_up ? sums[2 + i] : other;
      values[i] = gated(gate + bias.of[0], up + bias.of[Product::kMatrices - 1]);
    }
    return Element::pack(values[0], values[1]);
  }

  // To the sums: a lane has a column of gate and the same of up, or two columns.
  __device__ __forceinline__ void add_biases(const Output<Product>& to, int expert, int column) {
    if constexpr (kBiased) {
      constexpr int kWarpColumns = 16 / Product::kMatrices;
      const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize % 4;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const int own = column + kWarpColumns * (4 * part + warp) + lane / 4;
        if (own >= Product::kWidth) continue;
        const auto first = to.bias(expert, own);
        const float low = first.of[0], high = Product::kMatrices == 2
                                                  ? first.of[Product::kMatrices - 1]
                                                  : to.bias(expert, min_of(own + 8, Product::kWidth - 1)).of[0];
#pragma unroll
        for (int block = 0; block < kRows / 8; ++block) {
#pragma unroll
          for (int v = 0; v < 4; ++v) sums_[part][block][v] += v < 2 ? low : high;
        }
      }
    }
  }

  // The warpgroup's columns of a row have one scale. Two parts are turned round together: a byte each.
  __device__ __forceinline__ void store_quantized(const Output<Product>& to, const Tile& tile, int column) {
    const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize % 4;
    float largest[kRows / 8][2] = {};
#pragma unroll
    for (int block = 0; block < kRows / 8; ++block) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          float(&values)[4] = totals_[part][block];
          values[i] = gated(values[i], values[2 + i]);
          largest[block][i] = fmaxf(largest[block][i], fabsf(values[i]));
        }
#pragma unroll
        for (int distance = 4; distance < kWarpSize; distance *= 2)
          largest[block][i] = fmaxf(largest[block][i], __shfl_xor_sync(kWholeWarp, largest[block][i], distance));
      }
    }
    share_largest(largest);
#pragma unroll
    for (int block = 0; block < kRows / 8; ++block) {
      float inverse[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float scale = scale_of(largest[block][i]);
        inverse[i] = inverse_of(scale);
        const int row = 8 * block + 2 * (lane % 4) + i;
        if (warp == 0 && lane < 4 && row < tile.rows) to.scales[between_scale(tile.row, column) + row] = scale;
      }
      const int row = 8 * block + lane / 4;
      Operand* const own =
          to.values + static_cast<i64>(tile.place + row) * Product::kWidth + column + 8 * warp + 2 * (lane % 4);
#pragma unroll
      for (int part = 0; part < kParts; part += 2) {
        const float(&low)[4] = totals_[part][block], (&high)[4] = totals_[min_of(part + 1, kParts - 1)][block];
        const u32 first = quantize_pair(low[0], high[0], inverse[0]),
                  second = quantize_pair(low[1], high[1], inverse[1]);
        const u32 turned = transposed_8x8(first | second << 16);
        if (row >= tile.rows) continue;
        *reinterpret_cast<u16*>(own + 32 * part) = static_cast<u16>(__byte_perm(turned, 0, 0x4420));
        if (part + 1 < kParts)
          *reinterpret_cast<u16*>(own + 32 * (part + 1)) = static_cast<u16>(__byte_perm(turned, 0, 0x4431));
      }
    }
  }

  // From a warp's largest magnitudes of each row to those of its warpgroup. Two places take turns: who writes one again
  // has met all at the barrier since, and they had read it before that.
  __device__ __forceinline__ void share_largest(float (&largest)[kRows / 8][2]) {
    const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize % 4, group = threadIdx.x / (4 * kWarpSize);
    float* const shared = reinterpret_cast<float*>(dynamic_shared() + Stages<Product>::kLargestOffset) +
                          (turn_ * kGroups + group) * 4 * kRows;
    turn_ ^= 1;
#pragma unroll
    for (int block = 0; block < kRows / 8; ++block) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (lane < 4) shared[warp * kRows + 8 * block + 2 * lane + i] = largest[block][i];
      }
    }
    named_barrier_sync(1 + group, 4 * kWarpSize);
#pragma unroll
    for (int block = 0; block < kRows / 8; ++block) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int other = 0; other < 4; ++other)
          largest[block][i] = fmaxf(largest[block][i], shared[other * kRows + 8 * block + 2 * (lane % 4) + i]);
      }
    }
  }

  int& turn_;
  float sums_[kParts][kRows / 8][4] = {};
  float totals_[kNarrow ? kParts : 1][kRows / 8][4] = {};
};

template <typename Product>
using SumsOf = SwappedSums<Product>;

#endif

// The scales of a warpgroup's weights.
template <typename Product>
class WeightScales {
 public:
  using OfChunk = float[kWeightScales<Product>];

  // `column` is the warpgroup's first.
  __device__ __forceinline__ WeightScales(const float* scales, int expert, int column) {
    constexpr int kBlocks = Product::kMatrices * Product::kWidth / kScaleGroup;  // of an expert's columns
#pragma unroll
    for (int i = 0; i < kWeightScales<Product>; ++i) {
      const int block = Product::kMatrices == 2 ? (column + i * Product::kWidth) / kScaleGroup
                                                : min_of(column / kScaleGroup + i, kBlocks - 1);
      of_columns_[i] = scales + (static_cast<i64>(expert) * kBlocks + block) * (Product::kDepth / kScaleGroup);
    }
  }

  // Those of a chunk of K. A line of L1 has those of 32, so only the first takes long.
  __device__ __forceinline__ void load(int chunk, OfChunk& own) const {
#pragma unroll
    for (int i = 0; i < kWeightScales<Product>; ++i) own[i] = of_columns_[i][chunk];
  }

 private:
  const float* of_columns_[kWeightScales<Product>];
};

// A multiplying warpgroup. `place` is its present stage.
template <typename Product>
class Multiplier {
 public:
  __device__ __forceinline__ Multiplier(const Ring<Product>& ring, const void* weight_scales, int group,
                                        RingPlace<Product::kStages>& place)
      : ring_(ring), weight_scales_(static_cast<const float*>(weight_scales)), place_(place), group_(group) {}

  // Without any of the tile's rows the warpgroup leaves it to the others.
  __device__ __forceinline__ void multiply(const Tile& tile, const Output<Product>& to) {
    if (group_ % kRowGroups * (kRows / kRowGroups) >= tile.rows) {
      pass();
      return;
    }
    SumsOf<Product> sums(group_,
                         turn_);  // here, so that a launch of both products does not keep those of both
    const int column = tile.column + group_ / kRowGroups * kOwnColumns<Product>;
    if constexpr (kNarrow) {
      add_scaled(sums, WeightScales<Product>(weight_scales_, tile.expert, column));
    } else if constexpr (kPacked) {
      add_packed(sums);
    } else {
      add(sums);
    }
    sums.store(to, tile, column);
  }

 private:
  __device__ __forceinline__ u32 own_weights(int stage) const {
    return ring_.weights(stage) + group_ / kRowGroups * kSumColumns<Product> * kChunkRowBytes;
  }

  // Gathered rows were written by ordinary copies: wgmma finds them behind the fence.
  __device__ __forceinline__ void wait_for(int stage) const {
    mbarrier_wait(ring_.full(stage), place_.parity);
    if constexpr (Product::kGathers) fence_async_proxy();
  }

  // Instructions of one step run while the next step's are issued.
  __device__ __forceinline__ void add(SumsOf<Product>& sums) {
    int before = 0;  // the stage of the step before
#pragma unroll 1
    for (int step = 0; step < Stages<Product>::kSteps; ++step) {
      const int stage = place_.index;
      wait_for(stage);
      wgmma_begin();
      sums.add(ring_.rows(stage), own_weights(stage), 0);
      wgmma_commit();
      wgmma_wait<1>();
      if (step > 0) release(before);
      before = stage;
      place_.advance();
    }
    wgmma_wait<0>();
    sums.hold();
    release(before);
  }

  // Instructions of one unit run while the next one's fragments are made.
  __device__ __forceinline__ void add_packed(SumsOf<Product>& sums) {
    constexpr int kUnits = SumsOf<Product>::kUnits;
    static_assert(kUnits % 2 == 0, "fragments take turns");
    const int strip = group_ * kOwnStrips<Product> * kChunks;
    typename SumsOf<Product>::Fragments fragments[2];
    int before = 0;
#pragma unroll 1
    for (int step = 0; step < Stages<Product>::kSteps; ++step) {
      const int stage = place_.index;
      wait_for(stage);
      const u8* const values = ring_.generic(ring_.weights(stage)) + strip * kPackedValueBytes;
      const u8* const scales = ring_.generic(ring_.scales(stage)) + strip * kPackedScaleBytes;
      auto packed = sums.load(values, scales, 0);
#pragma unroll
      for (int unit = 0; unit < kUnits; ++unit) {
        sums.unpack(packed, fragments[unit % 2]);
        if (unit + 1 < kUnits) packed = sums.load(values, scales, unit + 1);
        wgmma_begin();
        sums.add_unit(ring_.rows(stage), unit, fragments[unit % 2]);
        wgmma_commit();
        wgmma_wait<1>();
        if (unit == 0 && step > 0) release(before);
      }
      before = stage;
      place_.advance();
    }
    wgmma_wait<0>();
    sums.hold();
    release(before);
  }

  // The sums of a group of K are waited for before they are scaled: meanwhile the other warpgroups multiply.
  __device__ __forceinline__ void add_scaled(SumsOf<Product>& sums, const WeightScales<Product>& weights) {
#pragma unroll 1
    for (int step = 0; step < Stages<Product>::kSteps; ++step) {
      const int stage = place_.index;
      wait_for(stage);
#pragma unroll
      for (int group = 0; group < Stages<Product>::kGroups; ++group) {
        wgmma_begin();
        sums.add(ring_.rows(stage), own_weights(stage), group * Stages<Product>::kGroupUnits);
        wgmma_commit();
        typename WeightScales<Product>::OfChunk of_weights;
        weights.load(step * kChunks + group * Product::kScaled / kChunkValues, of_weights);
        const auto rows =
            sums.row_scales(reinterpret_cast<const float*>(ring_.generic(ring_.scales(stage))) + group * kRows);
        wgmma_wait<0>();
        sums.hold();
        if (group + 1 == Stages<Product>::kGroups) {
          __syncwarp();  // all lanes have their scales
          release(stage);
        }
        sums.promote(rows, of_weights);
      }
      place_.advance();
    }
  }

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
  const float* weight_scales_;
  RingPlace<Product::kStages>& place_;
  int group_, turn_ = 0;
};
