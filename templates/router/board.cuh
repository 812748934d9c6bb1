// Counts slots and finds their places by a bit for each token and expert: a slot's place in its expert's segment is the
// number of bits before its own. No order of threads decides a place, so that every run gives the same. A block takes a
// range of tokens, in chunks of kChunkTokens.
//
// One bit is enough because a token's experts differ. With an expert map two of them could go to one segment, so there
// is no board then.
#pragma once

#include "templates/router/place.cuh"

constexpr int kChunkTokens = 256, kBits = 32, kChunkWords = kChunkTokens / kBits;
constexpr u32 kNoExpert = 0xffff;

// Lies in dynamic shared memory, longer than declared: word w of expert e is `bits[w * kExperts + e]`.
struct Board {
  Layout layout;
  u32 own[kExperts];              // slots of the expert in this block
  u32 before[kExperts];           // slots of the expert before the present chunk, those of earlier blocks included
  int missing;                    // a block of the grid whose counts did not come, or -1
  u16 ids[kChunkTokens * kTopK];  // the chunk's experts; kNoExpert for a token that is not routed
  u32 bits[1];
};

__device__ __forceinline__ Board& board_memory() { return *reinterpret_cast<Board*>(dynamic_shared()); }

// The range of tokens that a block takes, in chunks.
struct ChunkedTokens {
  int first, last;  // `last` is the first token behind the range

  // The tokens of `block`, if every block takes `each`.
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

// Writes down that `expert` is in `slot` of the chunk's `token`.
__device__ __forceinline__ void mark(Board& board, int token, int slot, int expert) {
  board.ids[token * kTopK + slot] = u16(expert);
  atomicOr(&board.bits[token / kBits * kExperts + expert], 1u << token % kBits);
}

// Ends with a barrier.
__device__ __forceinline__ void clear_chunk(Board& board, const ChunkedTokens& tokens, int chunk) {
#pragma unroll 1
  for (int i = threadIdx.x; i < tokens.words(chunk) * kExperts; i += kThreads) board.bits[i] = 0;
  if constexpr (kCounted) {
#pragma unroll 1
    for (int i = threadIdx.x; i < tokens.size(chunk) * kTopK; i += kThreads) board.ids[i] = u16(kNoExpert);
  }
  __syncthreads();
}

// Called before a block's first chunk is marked. Ends with a barrier.
__device__ __forceinline__ void prepare_board(Board& board, const ChunkedTokens& tokens) {
#pragma unroll 1
  for (int e = threadIdx.x; e < kExperts; e += kThreads) board.layout.counts[e] = board.before[e] = 0;
  if (threadIdx.x == 0) board.missing = -1;
  clear_chunk(board, tokens, 0);
}

// Marks a chunk whose ids were stored before. No thread may still use the chunk before it. Ends with a barrier.
__device__ __forceinline__ void fill_chunk(Board& board, const Id* ids, const ChunkedTokens& tokens, int chunk) {
  clear_chunk(board, tokens, chunk);
  const i64 first = i64(tokens.begin(chunk)) * kTopK;
#pragma unroll 1
  for (int i = threadIdx.x; i < tokens.size(chunk) * kTopK; i += kThreads) {
    const int expert = int(ids[first + i]);
    if (expert >= 0) mark(board, i / kTopK, i % kTopK, expert);
  }
  __syncthreads();
}

// Returns the expert's bits in the first `words` words of a chunk or round. All loads are in flight at once.
__device__ __forceinline__ int count_bits(const u32* bits, int words, int expert) {
  int count = 0;
#pragma unroll
  for (int w = 0; w < kChunkWords; ++w) count += w < words ? __popc(bits[w * kExperts + expert]) : 0;
  return count;
}

// Returns the expert's bits of the tokens before `token`, which counts from the first of the chunk or round.
__device__ __forceinline__ int count_bits_before(const u32* bits, int token, int expert) {
  const int word = token / kBits;
  const u32 before = bits[word * kExperts + expert] & ((1u << token % kBits) - 1);
  return count_bits(bits, word, expert) + __popc(before);
}

// Leaves the block's counts in `own`. The first chunk must be marked.
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

// Stores the places of a chunk that is marked. `before` and `layout.offsets` must be complete.
__device__ __forceinline__ void place_chunk(const PlaceArguments& a, const Board& board, const ChunkedTokens& tokens,
                                            int chunk) {
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

// Stores the places of all of the block's tokens. If they are one chunk, it must be marked.
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
