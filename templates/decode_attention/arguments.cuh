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

struct Work {
  int batch;
  int kv_head;
  int first_head;  // the block's first query head
  int rows;        // how many of them: kRows, or fewer in the last block of a group
  int q_heads;
  int split;
  int splits;  // active ones of this sequence
  int first_token;
  int end_token;  // one past the last
  int tiles;

  __device__ __forceinline__ bool empty() const { return split >= splits; }
};

// The grid is (kv_heads * kHeadBlocks, splits, batch). Split boundaries follow the sequence's own length.
__device__ __forceinline__ Work find_work(const i32* lengths) {
  Work work;
  work.batch = blockIdx.z;
  work.kv_head = blockIdx.x / kHeadBlocks;
  work.first_head = work.kv_head * kGroup + blockIdx.x % kHeadBlocks * kRows;
  const int past = static_cast<int>(blockIdx.x) % kHeadBlocks * kRows;
  work.rows = kGroup % kRows == 0 ? kRows : min_of(kRows, kGroup - past);
  work.q_heads = gridDim.x / kHeadBlocks * kGroup;
  work.split = blockIdx.y;
  const int length = lengths[work.batch];
  const int tiles = ceil_div(length, kTile);
  work.splits = active_splits(length, gridDim.y);
  const int first = static_cast<int>(static_cast<i64>(tiles) * work.split / work.splits);
  const int end = static_cast<int>(static_cast<i64>(tiles) * (work.split + 1) / work.splits);
  work.first_token = first * kTile;
  work.end_token = min_of(end * kTile, length);
  work.tiles = end - first;
  return work;
}
