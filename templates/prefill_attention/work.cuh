// The work of a block: one block of query rows of one head of one sequence.
#pragma once

#include "templates/common/attention.cuh"
#include "templates/prefill_attention/shape.cuh"

struct Scales {
  const float* queries;
  const float* keys;
  const float* values;
};

using Scaling = KvScaling<kNarrow, kHeadScales>;

// The factor of the products of a KV head's keys.
__device__ __forceinline__ float logit_factor(const Scales& scales, float scale_log2, int kv_head) {
  if constexpr (kNarrowQueries) scale_log2 *= Scaling::at(scales.queries, kv_head);
  return Scaling::logit_factor(scale_log2, scales.keys, kv_head);
}

// Bounds an offset or a length, which may be anything.
__device__ __forceinline__ int cut_to(int most, int value) { return min_of(max_of(0, value), most); }

// The begin and end of sequences, and how the grid is cut into tiles.
struct Batch {
  const i32* q_offsets;   // [batch + 1]
  const i32* kv_offsets;  // [batch + 1]; contiguous KV
  const i32* kv_lengths;  // [batch]; paged KV
  int batch;
  int kv_heads;
  int blocks;    // of rows, the most of a sequence
  int q_tokens;  // rows that the query tensor has
  int capacity;  // tokens: of a row of the page table, or of the whole KV tensor
  int section;   // pairs of a sequence and a KV head that are taken together; 0: sequence by sequence
  int splits;    // blocks that share a row's tokens

  __device__ __forceinline__ int q_first(int sequence) const { return max_of(0, q_offsets[sequence]); }
  __device__ __forceinline__ int q_length(int sequence) const {
    return cut_to(q_tokens, q_offsets[sequence + 1]) - q_first(sequence);
  }
};

// Tiles of KV, [first, end).
struct TileRange {
  int first;
  int end;

  __device__ __forceinline__ int count() const { return end - first; }
};

// Rows of a tile, [begin, end). May reach beyond it.
struct RowRange {
  int begin;
  int end;

  __device__ __forceinline__ bool all() const { return begin <= 0 && end >= kTile; }
};

struct Work {
  int sequence;  // -1: there is none left
  int kv_head;
  int head;         // query head; the first of kv_head's if packed
  int first_token;  // of the block, within the sequence's new tokens
  int q_first;      // where the sequence's new tokens begin
  int q_length;
  int kv_first;  // contiguous: where its KV begins
  int kv_length;
  int split;  // which share of the tiles, of how many
  int splits;

  __device__ __forceinline__ bool empty() const { return first_token >= q_length; }

  // The position of new token `token` within the sequence.
  __device__ __forceinline__ int position(int token) const { return kv_length - q_length + token; }
  // It sees the tokens [begin, end).
  __device__ __forceinline__ int begin(int token) const {
    return kWindow == 0 ? 0 : max_of(0, position(token) - kWindow + 1);
  }
  __device__ __forceinline__ int end(int token) const {
    return kCausal ? min_of(kv_length, position(token) + 1) : kv_length;
  }
  __device__ __forceinline__ int last_token() const { return min_of(q_length, first_token + kTokens) - 1; }

  // The rows of a tile that hold tokens some query sees. 0 times what lies in the others of V must be 0.
  __device__ __forceinline__ RowRange seen_rows(int tile) const {
    return {kWindow == 0 ? 0 : begin(first_token) - tile * kTile, kv_length - tile * kTile};
  }

  __device__ __forceinline__ TileRange tiles() const {
    const int end_tile = ceil_div(max_of(0, end(last_token())), kTile);
    const TileRange all{min_of(begin(first_token) / kTile, end_tile), end_tile};
    if (splits == 1) return all;
    return {all.first + all.count() * split / splits, all.first + all.count() * (split + 1) / splits};
  }
};
