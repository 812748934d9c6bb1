// The parameters both bodies share, and the part of the work that falls to one block.
#pragma once

#include "templates/decode_attention/shape.cuh"

// Elements between neighbours. A block is a page, or a sequence where KV is contiguous.
struct KvStrides {
  i64 block;
  i64 head;
  i64 token;
};

struct Outputs {
  Element* o;          // [batch, q_heads, head_dim]
  float* partial_o;    // [batch, q_heads, splits, head_dim], normalized
  float* partial_lse;  // [batch, q_heads, splits], base-2 logarithm of the softmax denominator
  u32* counters;  // [batch, kv_heads * kHeadBlocks], zero between launches; null: a second kernel combines
};

// Splits that have a tile of their own; the others of the grid leave at once. The combine counts the same
// way.
__device__ __forceinline__ int active_splits(int length, int splits) {
  return max_of(1, min_of(splits, ceil_div(length, kTile)));
}

// What falls to one block. Split s of a sequence takes tiles s, s + gridDim.y, s + 2 * gridDim.y, ... of it, so
// that where a block's first tiles lie does not depend on the length, and they can be asked for before it is known.
struct Work {
  int batch;
  int kv_head;
  int first_head;  // the block's first query head
  int rows;        // how many of them: kRows, or fewer in the last block of a group
  int q_heads;
  int split;
  int first_token;
  int step;       // tokens from one tile of the block to its next
  int splits;     // active ones of this sequence; known once the length is, like all below
  int end_token;  // one past the sequence's last
  int tiles;

  // The grid is (kv_heads * kHeadBlocks, splits, batch).
  __device__ __forceinline__ Work() {
    batch = blockIdx.z;
    kv_head = blockIdx.x / kHeadBlocks;
    first_head = kv_head * kGroup + blockIdx.x % kHeadBlocks * kRows;
    const int past = static_cast<int>(blockIdx.x) % kHeadBlocks * kRows;
    rows = kGroup % kRows == 0 ? kRows : min_of(kRows, kGroup - past);
    q_heads = gridDim.x / kHeadBlocks * kGroup;
    split = blockIdx.y;
    first_token = split * kTile;
    step = gridDim.y * kTile;
  }

  // The block's tiles among the first `tokens` tokens.
  __device__ __forceinline__ int tiles_within(int tokens) const {
    return ceil_div(max_of(0, ceil_div(tokens, kTile) - split), static_cast<int>(gridDim.y));
  }

  __device__ __forceinline__ void measure(int length) {
    splits = active_splits(length, gridDim.y);
    end_token = length;
    tiles = tiles_within(length);
  }

  __device__ __forceinline__ bool empty() const { return split >= splits; }
};

// Tiles a block asks for before it knows the length: contiguous KV has `capacity` tokens of every sequence.
__device__ __forceinline__ int tiles_ahead(const Work& work, int capacity) {
  return kPage == 0 ? min_of(kStages, work.tiles_within(capacity)) : 0;
}

// Keeps what is computed from a loaded value from being waited for earlier than here.
__device__ __forceinline__ int needed_now(int value) {
  asm volatile("" : "+r"(value));
  return value;
}
