// Body `mma` (sm_80+): up to 32 packed rows, and a warp for every 8 tokens of a tile. A warp computes S and softmax of
// its tokens, hands P on through shared memory, and adds to O the columns of the latent that are its own. Tiles come
// by cp.async. begin() and attend_rows() are called by mla_decode.cu.
#pragma once

#include "templates/common/dependent_launch.cuh"
#include "templates/common/mma.cuh"
#include "templates/common/reduce.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/unrolled.cuh"
#include "templates/mla_decode/gather.cuh"

constexpr int kWarps = kTile / 8, kThreads = kWarps * kWarpSize, kBlockThreads = kThreads;
constexpr int kRowTiles = kRows / 16;
constexpr int kColumns = kLatent / kWarps;  // of O, a warp
constexpr int kScoresRow = kTile * 2 + 16;  // bytes; the padding keeps rows off each other's banks

using Copies = TileCopies<kThreads>;

// Shared memory: the tiles; the queries as [chunk][row][128 bytes], in the same swizzle; P; maxima and sums of rows, by
// warp. A narrow latent has one tile, and behind the tile the raw ones that are under way.
constexpr int kCopies = STAGES;  // tiles under way
constexpr int kCopyBytes = kNarrow ? Copies::kRawBytes : kTileBytes;
constexpr int kCopyOffset = kNarrow ? kTileBytes : 0;
constexpr int kQueryOffset = kCopyOffset + kCopies * kCopyBytes;
constexpr int kScoresOffset = kQueryOffset + kRows * kWidth * 2;
constexpr int kByWarpOffset = kScoresOffset + kRows * kScoresRow;
static_assert(kByWarpOffset + kWarps * kRows * 4 <= SHARED_BYTES, "kernel.json lays out shared memory as above");

class Attention {
 public:
  __device__ __forceinline__ Attention(u8* shared, const Work& work, float scale)
      : base_(shared_address(shared)),
        by_warp_(reinterpret_cast<float*>(shared + kByWarpOffset)),
        scale_log2_(logit_factor(scale)),
        negates_(scale < 0) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        maximum_[i][half] = lowest();
        sum_[i][half] = 0;
        end_[i][half] = work.end(row_of(i, half));
      }
    }
    set_zero(output_);
  }

  static __device__ __forceinline__ int row_of(int row_tile, int half) {
    return row_tile * 16 + half * 8 + threadIdx.x % kWarpSize / 4;
  }

  // Called by all threads, when the tile at shared address `tile` is there for all. `first` is its first token; tokens
  // without a bit in `present` are none.
  __device__ __forceinline__ void add(u8* shared, u32 tile, int first, u64 present) {
    float scores[kRowTiles][4] = {};
    multiply(tile, scores);
    const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
    const int token = first + warp * 8 + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float(&pair)[4] = scores[i];
        if (negates_) pair[2 * half] = -pair[2 * half], pair[2 * half + 1] = -pair[2 * half + 1];
        if (token >= end_[i][half] || (kChosen && (present >> (token - first) & 1) == 0)) {
          pair[2 * half] = minus_infinity();
        }
        if (token + 1 >= end_[i][half] || (kChosen && (present >> (token + 1 - first) & 1) == 0)) {
          pair[2 * half + 1] = minus_infinity();
        }
        const float highest = max_across<4>(fmaxf(pair[2 * half], pair[2 * half + 1])) * scale_log2_;
        if (lane % 4 == 0) by_warp_[warp * kRows + row_of(i, half)] = highest;
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row_of(i, half);
        float highest = minus_infinity();
#pragma unroll
        for (int other = 0; other < kWarps; ++other) highest = fmaxf(highest, by_warp_[other * kRows + row]);
        const float raised = highest > maximum_[i][half] + kLag ? highest : maximum_[i][half];
        const float factor = exp2_fast(maximum_[i][half] - raised);
        maximum_[i][half] = raised;
        const float left = exp2_fast(fmaf(scores[i][2 * half], scale_log2_, -raised)),
                    right = exp2_fast(fmaf(scores[i][2 * half + 1], scale_log2_, -raised));
        sum_[i][half] = sum_[i][half] * factor + left + right;
        *reinterpret_cast<u32*>(shared + kScoresOffset + row * kScoresRow + (warp * 8 + lane % 4 * 2) * 2) =
            Operand::pack(left, right);
        if (!__any_sync(kWholeWarp, factor != 1)) continue;
#pragma unroll
        for (int j = 0; j < kColumns / 8; ++j) {
          output_[i][j][2 * half] *= factor;
          output_[i][j][2 * half + 1] *= factor;
        }
      }
    }
    __syncthreads();
    accumulate(tile);
  }

  // Called by all threads, when nobody reads tiles any more.
  __device__ __forceinline__ void store(const Work& work, const Outputs& outputs, float value_scale) {
    const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float sum = sum_across<4>(sum_[i][half]);
        if (lane % 4 == 0) by_warp_[warp * kRows + row_of(i, half)] = sum;
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row_of(i, half);
        if (row >= work.rows) continue;
        float sum = 0;
#pragma unroll
        for (int other = 0; other < kWarps; ++other) sum += by_warp_[other * kRows + row];
        store_row(work, outputs, row, output_[i], half, inverse_of(sum) * value_scale);
        if (warp > 0 || lane % 4 != 0) continue;
        const float logarithm = maximum_[i][half] + log2_fast(sum);
        if (work.splits > 1) {
          outputs.partial_lse[work.global_row(row) * gridDim.y + work.split] = logarithm;
        } else if (kWantsLse) {
          outputs.lse[work.global_row(row)] = logarithm * kLn2;
        }
      }
    }
  }

 private:
  // S of this warp's 8 tokens.
  __device__ __forceinline__ void multiply(u32 tile, float (&scores)[kRowTiles][4]) const {
    const int lane = threadIdx.x % kWarpSize, token = threadIdx.x / kWarpSize * 8 + lane % 8;
#pragma unroll
    for (int pair = 0; pair < kWidth / 32; ++pair) {
      u32 k[4];
      ldmatrix(k, tile + unit_offset(kTile, token, pair * 4 + lane / 8));
#pragma unroll
      for (int side = 0; side < 2; ++side) {
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          u32 q[4];
          ldmatrix(q, base_ + kQueryOffset + unit_offset(kRows, i * 16 + lane % 16, pair * 4 + side * 2 + lane / 16));
          mma_16816<Operand>(scores[i], q, k[2 * side], k[2 * side + 1]);
        }
      }
    }
  }

  // O += P V of this warp's columns.
  __device__ __forceinline__ void accumulate(u32 tile) {
    const int lane = threadIdx.x % kWarpSize, unit = static_cast<int>(threadIdx.x) / kWarpSize * (kColumns / 8);
#pragma unroll
    for (int step = 0; step < kTile / 16; ++step) {
      u32 p[kRowTiles][4];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        ldmatrix(p[i], base_ + kScoresOffset + (i * 16 + lane % 16) * kScoresRow + step * 32 + lane / 16 * 16);
      }
#pragma unroll
      for (int j = 0; j < kColumns / 8; j += 2) {
        u32 v[4];
        ldmatrix_transposed(v, tile + unit_offset(kTile, step * 16 + lane % 16, unit + j + lane / 16));
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          mma_16816<Operand>(output_[i][j], p[i], v[0], v[1]);
          mma_16816<Operand>(output_[i][j + 1], p[i], v[2], v[3]);
        }
      }
    }
  }

  static __device__ __forceinline__ void store_row(const Work& work, const Outputs& outputs, int row,
                                                   const float (&output)[kColumns / 8][4], int half, float inverse) {
    const int column = static_cast<int>(threadIdx.x) / kWarpSize * kColumns + threadIdx.x % 4 * 2;
    Element* const o = outputs.o + work.offset(outputs.strides, row) + column;
    float* const part = outputs.partial_o + (work.global_row(row) * gridDim.y + work.split) * kLatent + column;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      const float left = output[j][2 * half] * inverse, right = output[j][2 * half + 1] * inverse;
      if (work.splits > 1) {
        *reinterpret_cast<float2*>(part + 8 * j) = make_float2(left, right);
      } else {
        *reinterpret_cast<u32*>(o + 8 * j) = Element::pack(left, right);
      }
    }
  }

  u32 base_;
  float* by_warp_;  // [warp][row]: maxima, then sums
  float scale_log2_;
  bool negates_;
  int end_[kRowTiles][2];
  float maximum_[kRowTiles][2];
  float sum_[kRowTiles][2];  // this lane's share of this warp's tokens
  float output_[kRowTiles][kColumns / 8][4];
};

__device__ __forceinline__ void begin(u8*) {}

// The whole work of a block.
__device__ __forceinline__ void attend_rows(u8* shared, const Element* q, const RowStrides& q_strides,
                                            const TokenRows& rows, const Work& work, const Outputs& outputs,
                                            float scale) {
  const u32 base = shared_address(shared);
  const Copies copies(shared, rows, threadIdx.x);
  const auto ask = [&](int tile) {
    if (tile < work.tiles) copies.ask(kCopyOffset + tile % kCopies * kCopyBytes, copies.places(work, tile));
    cp_async_commit();
  };
  for (int tile = 0; tile < kCopies - 1; ++tile) ask(tile);
  constexpr int kUnits = kWidth / 8;
  for (int i = threadIdx.x; i < kRows * kUnits; i += kThreads) {
    const int row = i / kUnits, unit = i % kUnits;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (row < work.rows) value = to_operand(reinterpret_cast<const uint4*>(q + work.offset(q_strides, row))[unit]);
    *reinterpret_cast<uint4*>(shared + kQueryOffset + unit_offset(kRows, row, unit)) = value;
  }
  Attention attention(shared, work, scale * rows.scale());
  for (int tile = 0; tile < work.tiles; ++tile) {
    __syncthreads();  // all have read the tile that the next one replaces
    ask(tile + kCopies - 1);
    cp_async_wait<kCopies - 1>();
    const int from = kCopyOffset + tile % kCopies * kCopyBytes;
    if constexpr (kNarrow) copies.widen(from, 0);
    __syncthreads();
    attention.add(shared, base + (kNarrow ? 0 : from), (work.first_tile + tile) * kTile,
                  kChosen ? present_tokens(rows, work, tile) : 0);
  }
  __syncthreads();
  attention.store(work, outputs, rows.scale());
}
