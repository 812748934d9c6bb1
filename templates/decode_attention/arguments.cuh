// The parameters both bodies share, and the work of one block.
#pragma once

#include "templates/common/attention.cuh"
#include "templates/common/dependent_launch.cuh"
#include "templates/common/settle.cuh"
#include "templates/decode_attention/shape.cuh"
#include "templates/decode_attention/spans.cuh"

struct Queries {
  const Element* q;  // [sequence, new token, query head] by strides, head_dim elements each
  RowStrides strides;
};

struct Outputs {
  Element* o;  // [sequence, new token, query head] by strides, head_dim elements each
  RowStrides strides;
  float* lse;          // [batch, queries, q_heads], natural logarithms; where kWantsLse
  const float* sinks;  // [q_heads], natural; where kSinks
  float v_scale;       // what the values are multiplied by; where kNarrow
  float* partial_o;    // [batch, queries, q_heads, splits, head_dim], normalized; persistent: [slots, rows,
                       // head_dim]
  float* partial_lse;  // the same without head_dim: base-2 logarithms of the softmax denominators
  // [batch, kv_heads * kHeadBlocks]; persistent: [blocks]. Zero between launches; null: a second kernel
  // combines.
  u32* counters;
};

// Whether the caller says that no launch that may still run writes lengths, pages or any but the newest kQueries tokens
// of a sequence. Then they are read before the wait; queries and newest tokens are not.
__device__ __forceinline__ bool settled_now(int flags) { return (flags & kKvSettled) != 0; }

__device__ __forceinline__ void begin_after_predecessor() {
  wait_for_predecessor();
  allow_dependent_launch();
}

// The first token that any query of a sequence sees.
__device__ __forceinline__ int first_visible(int length) {
  return kWindow == 0 ? 0 : max_of(0, length - (kQueries - 1) - kWindow);
}

// The first tile begins no later than that, and such that tiles and pages still nest.
__device__ __forceinline__ int first_tile_token(int length) {
  constexpr int kAlignment = kPage == 0 ? 1 : min_of(kTile, kPage);
  return first_visible(length) / kAlignment * kAlignment;
}

// Tokens that no query sees share the first tile with those that some do.
constexpr bool kHiddenHead = kWindow > 0 && kPage > 1;

// Splits that have a tile of their own; the others of the grid leave at once. The combine counts the same
// way.
__device__ __forceinline__ int active_splits(int length, int splits) {
  return max_of(1, min_of(splits, ceil_div(length - first_tile_token(length), kTile)));
}

// Tiles of a KV head in a persistent grid's count: one where there is nothing to see, for its output's sake.
__device__ __forceinline__ int head_tiles(int length) {
  return max_of(1, ceil_div(length - first_tile_token(length), kTile));
}

using Scaling = KvScaling<kNarrow, kHeadScales>;

// The places of one row's splits among the partial results.
struct SplitRows {
  i64 first;
  i64 others;
  int stride;

  __device__ __forceinline__ i64 at(int split) const { return split == 0 ? first : others + split * stride; }
};

// The work of one block, or the segment that a persistent block is at. Split s of a sequence takes tiles s, s
// + gridDim.y, s + 2 * gridDim.y, ... of it, so that without a window where a block's tiles lie does not
// depend on the length, and the first can be asked for before it is known.
struct Work {
  int batch;
  int kv_head;
  int first_row;  // the block's first packed row
  int rows;       // how many of them: kRows, or fewer in the last block of a group
  int q_heads;
  int split;
  int step;         // tokens from one tile of the block to its next
  int first_token;  // of the block's first tile; known once the length is where there is a window
  int length;       // of the sequence, its new tokens included; known once measured, like all below
  int splits;       // active ones of this sequence
  int tiles;
  int skip;         // persistent: tiles to pass over before these
  int first_block;  // persistent: the block that has the item's first segment, and the slot of that
  int first_slot;

  // The grid is (kv_heads * kHeadBlocks, splits, batch).
  __device__ __forceinline__ Work() {
    batch = blockIdx.z;
    kv_head = blockIdx.x / kHeadBlocks;
    first_row = blockIdx.x % kHeadBlocks * kRows;
    rows = kPackedRows % kRows == 0 ? kRows : min_of(kRows, kPackedRows - first_row);
    q_heads = gridDim.x / kHeadBlocks * kGroup;
    split = blockIdx.y;
    step = gridDim.y * kTile;
    first_token = split * kTile;
  }

  // A segment of a persistent block's span. `heads` are KV heads.
  __device__ __forceinline__ Work(const Walk& walk, const Spans& spans, int sequence_length, int heads) {
    batch = walk.sequence;
    kv_head = walk.head;
    first_row = 0;
    rows = kRows;
    q_heads = heads * kGroup;
    step = kTile;
    length = sequence_length;
    first_token = first_tile_token(length) + walk.tile * kTile;
    tiles = walk.segment();
    split = skip = first_block = first_slot = 0;
    splits = 1;
    if (walk.whole()) return;
    const ItemSplits item = walk.splits(spans);
    split = blockIdx.x - item.first_block;
    splits = item.count;
    first_block = item.first_block;
    first_slot = item.first_slot;
  }

  // The block's tiles among the first `tokens` tokens.
  __device__ __forceinline__ int tiles_within(int tokens) const {
    return ceil_div(max_of(0, ceil_div(tokens, kTile) - split), static_cast<int>(gridDim.y));
  }

  __device__ __forceinline__ void measure(int sequence_length) {
    length = sequence_length;
    const int start = first_tile_token(length);
    first_token = start + split * kTile;
    splits = active_splits(length, gridDim.y);
    tiles = tiles_within(length - start);
  }

  // The first tiles, `most` at most, which hold none of the sequence's newest tokens.
  __device__ __forceinline__ int settled_tiles(int most) const {
    int tile = 0;
    while (tile < most && first_token + tile * step + kTile <= length - kQueries) ++tile;
    return tile;
  }

  __device__ __forceinline__ bool empty() const { return split >= splits; }

  // The place of the block's packed row `row` among queries or outputs.
  __device__ __forceinline__ i64 row_offset(const RowStrides& strides, int row) const {
    const int packed = first_row + row;
    const i64 sequence = batch * strides.sequence;
    if constexpr (kQueries == 1) return sequence + (kv_head * kGroup + packed) * strides.head;
    return sequence + packed / kGroup * strides.token + (kv_head * kGroup + packed % kGroup) * strides.head;
  }

  // The same counted in rows, as lse and partial results have them.
  __device__ __forceinline__ i64 output_row(int row) const {
    const int packed = first_row + row;
    if constexpr (kQueries == 1) return static_cast<i64>(batch) * q_heads + kv_head * kGroup + packed;
    return static_cast<i64>(batch * kQueries + packed / kGroup) * q_heads + kv_head * kGroup + packed % kGroup;
  }

  // The places of the splits of packed row `row`, and below the number of this item's counter.
  __device__ __forceinline__ SplitRows split_rows(int row) const {
    if constexpr (kPersistent) {
      return {static_cast<i64>(first_slot) * kRows + row, static_cast<i64>(2 * first_block) * kRows + row, 2 * kRows};
    }
    const i64 first = output_row(row) * gridDim.y;
    return {first, first, 1};
  }

  __device__ __forceinline__ int counter() const { return kPersistent ? first_block : batch * gridDim.x + blockIdx.x; }

  __device__ __forceinline__ int query_head(int row) const { return kv_head * kGroup + (first_row + row) % kGroup; }
};

// Tiles a block asks for before it knows the length: contiguous KV has `capacity` tokens of every sequence.
__device__ __forceinline__ int early_tiles(const Work& work, int capacity) {
  return kPage == 0 && kWindow == 0 ? min_of(kStages, work.tiles_within(capacity)) : 0;
}

// The tokens of a sub-tile that count, relative to its first: query i sees [first + i, end + i).
struct VisibleRange {
  int first;
  int end;

  // Any query misses some token of the sub-tile.
  __device__ __forceinline__ bool partial() const {
    return end < kWorkerTokens || (kWindow > 0 && first + kQueries - 1 > 0);
  }
};

__device__ __forceinline__ VisibleRange visible_range(const Work& work, int token) {
  const int end = work.length - (kQueries - 1);
  return {end - kWindow - token, end - token};
}
