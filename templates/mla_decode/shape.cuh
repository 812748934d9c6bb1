// The specialization of one compiled unit of mla_decode, and the work of a block.
//
// K is a token's whole row: the latent, and behind it the part that carries the position. V is the latent alone. In
// shared memory a tile lies as [chunk][token][128 bytes], in the swizzle of 128 bytes: what the copy engine writes and
// both wgmma and ldmatrix read.
#pragma once

#include "templates/common/attention.cuh"
#include "templates/common/convert.cuh"
#include "templates/common/reduce.cuh"
#include "templates/common/types.cuh"

constexpr int kLatent = 512, kRope = 64, kWidth = kLatent + kRope;
constexpr int kChunks = kWidth / 64, kLatentChunks = kLatent / 64;  // of 128 bytes
constexpr bool kNarrow = NARROW;                                    // the latent is in e4m3
constexpr bool kGroups = GROUPS;  // a scale for each 128 of its values; what carries the position is in Element, apart
constexpr bool kSpans = SPANS;    // as many clusters as fit the GPU, each with a span of all tiles: span_walk.cuh
constexpr bool kChosen = CHOSEN;  // each query has a list of the tokens that it sees, and stands for a sequence

// The type of products. What has one scale is widened exactly to fp16, and queries are rounded to it.
using Operand = Either<kNarrow && !kGroups, Fp16, Element>;

__device__ __forceinline__ u32 to_operand(u32 pair) {
  if constexpr (kIsSame<Operand, Element>) return pair;
  return convert_pair<Element, Operand>(pair);
}

__device__ __forceinline__ uint4 to_operand(uint4 words) {
  return make_uint4(to_operand(words.x), to_operand(words.y), to_operand(words.z), to_operand(words.w));
}

constexpr int kHeads = HEADS;
constexpr int kQueries = kChosen ? 1 : QUERIES;  // new tokens of a sequence, causal among themselves
constexpr int kPackedRows = kHeads * kQueries;   // query by query, its heads together
constexpr int kPage = PAGE;                      // tokens a page
constexpr int kTile = TILE;                      // tokens a stage
constexpr int kStages = RING;                    // tiles in shared memory
constexpr int kRows = ROWS;                      // packed rows of a block, padding included
constexpr bool kWantsLse = LSE;                  // the logarithm of the denominator is an output
constexpr int kGroupRows = kRows * PAIR;         // packed rows of a cluster
constexpr int kChunkBytes = kTile * 128;
constexpr int kTileBytes = kChunks * kChunkBytes;

// The offset of a unit of 16 bytes in the swizzle of 128 bytes, with `rows` rows to a chunk.
__device__ __forceinline__ int unit_offset(int rows, int row, int unit) {
  return unit / 8 * rows * 128 + row * 128 + ((unit % 8 ^ row % 8) << 4);
}

// The running maximum may lag by this many powers of two, so that outputs are seldom rescaled.
constexpr float kLag = 8.0f;

// The factor of logits, of base 2. Never 0: times the -infinity of what a row does not see it would be NaN.
// Logits are so small that it makes no difference.
__device__ __forceinline__ float logit_factor(float scale) { return fmaxf(fabsf(scale * kLog2E), 0x1p-100f); }

struct Outputs {
  Element* o;
  float* lse;
  float* partial_o;    // [packed row of all sequences][split][kLatent], normalized; kSpans: [slot][row][kLatent]
  float* partial_lse;  // the same without kLatent, of base 2
  RowStrides strides;
};

// The rows of a sequence that fall to a block, and its part of the tokens: `span` tiles, of which the last part has
// fewer. The grid is (blocks of rows, splits, sequences). With kSpans it is a segment, which SpanWalk fills in.
struct Work {
  int sequence;
  int first_row;
  int rows;
  int split;   // kSpans: the slot of a partial result
  int splits;  // that have tokens; one of them if there are none
  int length;
  int first_tile;
  int tiles;

  Work() = default;

  __device__ __forceinline__ Work(int block_row, int split_index, int batch, const i32* lengths, int capacity, int span)
      : sequence(batch), first_row(block_row), split(split_index) {
    rows = min_of(kRows, kPackedRows - first_row);
    length = kChosen ? capacity : clamp_length(lengths[sequence], capacity);
    const int all = ceil_div(length, kTile);
    splits = max_of(1, ceil_div(all, span));
    first_tile = split * span;
    tiles = max_of(0, min_of(span, all - first_tile));
  }

  // Neither this block nor any other of its cluster has tokens.
  __device__ __forceinline__ bool is_idle() const { return split / PARTS * PARTS >= splits; }

  // The clusters that share a row: if several, their results go through memory.
  __device__ __forceinline__ int groups() const { return ceil_div(splits, PARTS); }

  // The tokens that a packed row sees: those before it.
  __device__ __forceinline__ int end(int row) const {
    return kQueries == 1 ? length : length - (kQueries - 1) + (first_row + row) / kHeads;
  }

  __device__ __forceinline__ i64 offset(const RowStrides& strides, int row) const {
    const int packed = first_row + row, query = kChosen ? sequence % QUERIES : packed / kHeads,
              of = kChosen ? sequence / QUERIES : sequence;
    return of * strides.sequence + query * strides.token + packed % kHeads * strides.head;
  }

  // Among the packed rows of all sequences.
  __device__ __forceinline__ i64 global_row(int row) const {
    return static_cast<i64>(sequence) * kPackedRows + first_row + row;
  }

  // Among the partial results.
  __device__ __forceinline__ i64 partial_row(int row) const {
    if constexpr (kSpans) return static_cast<i64>(split) * kGroupRows + first_row % kGroupRows + row;
    return global_row(row) * (gridDim.y / PARTS) + split / PARTS;
  }
};
