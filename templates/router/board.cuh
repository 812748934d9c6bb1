// From ids to counts, offsets and permutations by a bit for each token and expert: a slot's place in its expert's
// segment is the number of bits before its own. No order of threads decides anything, so that every run gives the same.
// A block takes a range of tokens, kChunkTokens of them at a time.
//
// A token's experts differ, so that a bit is enough; an expert map could send two of them to one segment.
#pragma once

#include "templates/router/place.cuh"

constexpr int kChunkTokens = 256, kBits = 32, kChunkWords = kChunkTokens / kBits;
constexpr int kPairs = ceil_div(kExperts, 2);
constexpr u32 kNoExpert = 0xffff;

// In dynamic shared memory; the bits of word w and expert e lie at `bits[w * kExperts + e]`.
struct Board {
  Layout layout;
  u32 own[kExperts];              // slots of the expert in this block
  u32 before[kExperts];           // and before the chunk that is placed, in blocks before too
  int missing;                    // of a grid: a block whose counts did not come, or -1
  u16 ids[kChunkTokens * kTopK];  // of a chunk, kNoExpert where a token is not routed
  u32 bits[1];
};

__device__ __forceinline__ Board& board_memory() { return *reinterpret_cast<Board*>(dynamic_shared()); }

// A block's tokens in chunks.
struct ChunkedTokens {
  int first, last;  // tokens of the block

  // Of one of the blocks that take `each` tokens.
  static __device__ __forceinline__ ChunkedTokens of_block(int block, int each, int tokens) {
    const int first = min_of(block * each, tokens);
    return {first, min_of(first + each, tokens)};
  }

  __device__ __forceinline__ int slots() const { return (last - first) * kTopK; }
  __device__ __forceinline__ int count() const { return max_of(1, ceil_div(last - first, kChunkTokens)); }
  __device__ __forceinline__ int begin(int chunk) const { return first + chunk * kChunkTokens; }
  __device__ __forceinline__ int size(int chunk) const { return min_of(last - begin(chunk), kChunkTokens); }
  __device__ __forceinline__ int words(int chunk) const { return ceil_div(size(chunk), kBits); }
};

__device__ __forceinline__ void mark(Board& board, int token, int slot, int expert) {
  board.ids[token * kTopK + slot] = u16(expert);
  atomicOr(&board.bits[token / kBits * kExperts + expert], 1u << token % kBits);
}

__device__ __forceinline__ void clear_chunk(Board& board, const ChunkedTokens& tokens, int chunk) {
#pragma unroll 1
  for (int i = threadIdx.x; i < tokens.words(chunk) * kExperts; i += kThreads) board.bits[i] = 0;
  if constexpr (kCounted) {
#pragma unroll 1
    for (int i = threadIdx.x; i < tokens.size(chunk) * kTopK; i += kThreads) board.ids[i] = u16(kNoExpert);
  }
  __syncthreads();
}

// Before the first tokens are marked.
__device__ __forceinline__ void prepare_board(Board& board, const ChunkedTokens& tokens) {
#pragma unroll 1
  for (int e = threadIdx.x; e < kExperts; e += kThreads) board.layout.counts[e] = board.before[e] = 0;
  if (threadIdx.x == 0) board.missing = -1;
  clear_chunk(board, tokens, 0);
}

// Reads a chunk's ids back.
__device__ __forceinline__ void fill_chunk(Board& board, const Id* ids, const ChunkedTokens& tokens,
                                           int chunk) {
  clear_chunk(board, tokens, chunk);
  const i64 first = i64(tokens.begin(chunk)) * kTopK;
#pragma unroll 1
  for (int i = threadIdx.x; i < tokens.size(chunk) * kTopK; i += kThreads) {
    const int expert = int(ids[first + i]);
    if (expert >= 0) mark(board, i / kTopK, i % kTopK, expert);
  }
  __syncthreads();
}

// Bits of an expert in the first `words` words of a chunk or round, all of which are waited for together.
__device__ __forceinline__ int count_bits(const u32* bits, int words, int expert) {
  int count = 0;
#pragma unroll
  for (int w = 0; w < kChunkWords; ++w) count += w < words ? __popc(bits[w * kExperts + expert]) : 0;
  return count;
}

// Of the chunk's tokens before `token`.
__device__ __forceinline__ int count_bits_before(const u32* bits, int token, int expert) {
  const int word = token / kBits;
  const u32 before = bits[word * kExperts + expert] & ((1u << token % kBits) - 1);
  return count_bits(bits, word, expert) + __popc(before);
}

// Leaves the block's counts in `own`. The first chunk is marked already.
__device__ __forceinline__ void count_own(Board& board, const Id* ids, const ChunkedTokens& tokens) {
#pragma unroll 1
  for (int chunk = 0; chunk < tokens.count(); ++chunk) {
    if (chunk > 0) fill_chunk(board, ids, tokens, chunk);
#pragma unroll 1
    for (int e = threadIdx.x; e < kExperts; e += kThreads)
      board.own[e] = (chunk > 0 ? board.own[e] : 0) + count_bits(board.bits, tokens.words(chunk), e);
    __syncthreads();
  }
}

__device__ __forceinline__ void place_chunk(const PlaceArguments& a, const Board& board,
                                            const ChunkedTokens& tokens, int chunk) {
  const i64 first = i64(tokens.begin(chunk)) * kTopK;
#pragma unroll 1
  for (int i = threadIdx.x; i < tokens.size(chunk) * kTopK; i += kThreads) {
    const u32 expert = board.ids[i];
    const bool routed = !kCounted || expert != kNoExpert;
    int place = -1;
    if (routed) {
      const int position = int(board.before[expert]) + count_bits_before(board.bits, i / kTopK, int(expert));
      if (position < a.capacity) place = board.layout.offsets[expert] + position;
    }
    store_place(a, int(first) + i, int(expert), routed, place);
  }
}

__device__ __forceinline__ void place_tokens(const PlaceArguments& a, Board& board, const Id* ids,
                                             const ChunkedTokens& tokens) {
  const int chunks = tokens.count();
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (chunks > 1) fill_chunk(board, ids, tokens, chunk);
    place_chunk(a, board, tokens, chunk);
    if (chunk + 1 == chunks) return;
    __syncthreads();
#pragma unroll 1
    for (int e = threadIdx.x; e < kExperts; e += kThreads)
      board.before[e] += count_bits(board.bits, tokens.words(chunk), e);
    __syncthreads();
  }
}
