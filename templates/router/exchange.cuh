// How blocks learn from each other how many slots of each expert come before theirs, and in all: through words in
// global memory that are zero until they are complete. Leaves `before` and `layout.counts`.
#pragma once

#include "templates/common/settle.cuh"
#include "templates/router/arrival.cuh"
#include "templates/router/board.cuh"

// Times that a block looks for another's words before it routes that block's tokens itself.
constexpr int kPatience = 128;

// Counts of a block's tokens, four experts in a word: a byte is a digit of the count plus one, so that a complete word
// is never zero and needs neither a flag nor a fence. Blocks of more tokens than one digit counts have a second plane
// of words for the high digits. Expert j * kCountWords + c is byte j of word c: neighbouring threads add to
// neighbouring banks.
constexpr int kCountWords = ceil_div(kExperts, 4), kDigits = 255;
constexpr u32 kNoCounts = 0x01010101;

struct GridCounts {
  u32* words;      // [planes, gridDim.x, kCountWords]
  int block_size;  // tokens of a block, the last may have fewer

  __device__ __forceinline__ int planes() const { return block_size >= kDigits ? 2 : 1; }
  __device__ __forceinline__ u32* row(int plane, int block) const {
    return words + (i64(plane) * gridDim.x + block) * kCountWords;
  }

  // Stores the block's counts, which `count_of(expert)` gives. Another block may have stored the same words already.
  // Returns what they held before: whoever waits for it (settle.cuh) waits until they are stored.
  template <typename CountOf>
  __device__ __forceinline__ u32 store(int block, CountOf count_of) const {
    u32 before = 0;
#pragma unroll
    for (int i = 0; i < ceil_div(kCountWords, kThreads); ++i) {
      const int column = i * kThreads + int(threadIdx.x);
      if (column < kCountWords) before |= store_word(0, block, column, count_of);
    }
    if (planes() == 1) return before;
#pragma unroll 1
    for (int column = threadIdx.x; column < kCountWords; column += kThreads)
      before |= store_word(1, block, column, count_of);
    return before;
  }

  template <typename CountOf>
  __device__ __forceinline__ u32 store_word(int plane, int block, int column, CountOf count_of) const {
    u32 word = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int e = j * kCountWords + column;
      if (e >= kExperts) continue;
      const u32 count = u32(count_of(e));
      word |= ((plane ? count / kDigits : count % kDigits) + 1) << 8 * j;
    }
    return atomicOr(&row(plane, block)[column], word);
  }

  // All threads call it, once no block needs the words any more.
  __device__ __forceinline__ void clear() const {
    const int count = planes() * int(gridDim.x) * kCountWords;
#pragma unroll 4
    for (int i = threadIdx.x; i < count; i += kThreads) words[i] = 0;
  }
};

// Sums of a word's four bytes.
struct ByteSums {
  u32 even = 0, odd = 0;  // bytes 0 and 2, 1 and 3: of up to 257 words

  __device__ __forceinline__ void add(u32 word) {
    even += word & 0xff00ff;
    odd += word >> 8 & 0xff00ff;
  }
  __device__ __forceinline__ u32 of(int byte) const { return ((byte % 2 ? odd : even) >> (byte / 2 * 16)) & 0xffff; }
};

// Threads that share a column of counts, each of which takes every kSlices-th block.
constexpr int kSlices = max_of(1, kThreads / kCountWords);
// Words of counts that a thread waits for together: those of 136 blocks, a few more than an H100 or H200 has SMs, in
// equal parts of at most 17, which registers hold.
constexpr int kReads = ceil_div(136, kSlices);
constexpr int kReadAtOnce = ceil_div(kReads, ceil_div(kReads, 17));

// Digits of earlier blocks, and of all.
struct ColumnSums {
  u32 before[4] = {}, all[4] = {};

  // A column's words of block `first` and the slice's next, all waited for together. Returns a block whose word did
  // not come, or -1.
  __device__ __forceinline__ int add(const u32* column, int first) {
    const int own = int(blockIdx.x), count = int(gridDim.x);
    const u32* const begin = column + i64(first) * kCountWords;
    u32 loaded[kReadAtOnce];
#pragma unroll
    for (int b = 0; b < kReadAtOnce; ++b) loaded[b] = first + b * kSlices < count ? 0 : kNoCounts;
    int missing = 0;  // of these
#pragma unroll 1
    for (int look = 0; look < kPatience; ++look) {
      // Loads all that is missing in the first look, then only the last of it until that has come: many readers of all
      // words hold up the writers.
      if (look > 0 && load_relaxed(begin + missing * kSlices * kCountWords) == 0) continue;
#pragma unroll
      for (int b = 0; b < kReadAtOnce; ++b) {
        if (loaded[b] == 0) loaded[b] = load_relaxed(begin + b * kSlices * kCountWords);
      }
      missing = -1;
#pragma unroll
      for (int b = 0; b < kReadAtOnce; ++b) missing = loaded[b] == 0 ? b : missing;
      if (missing < 0) break;
    }
    ByteSums of_before, of_all;
#pragma unroll
    for (int b = 0; b < kReadAtOnce; ++b) {
      of_all.add(loaded[b]);
      of_before.add(first + b * kSlices < own ? loaded[b] : kNoCounts);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      before[j] += of_before.of(j) - kReadAtOnce;
      all[j] += of_all.of(j) - kReadAtOnce;
    }
    return missing < 0 ? -1 : first + missing * kSlices;
  }
};

// The board must be prepared: `missing` is -1. Returns a block whose counts did not come, which the caller routes
// before it tries again, or -1. No block needs another to run at the same time.
__device__ __forceinline__ int add_up_grid(Board& board, const GridCounts& counts) {
  u32* const totals = reinterpret_cast<u32*>(board.layout.counts);
  for (int i = threadIdx.x; i < kCountWords * kSlices; i += kThreads) {
    const int column = i % kCountWords;
#pragma unroll 1
    for (int plane = 0; plane < counts.planes(); ++plane) {
      ColumnSums sums;
#pragma unroll 1
      for (int first = i / kCountWords; first < int(gridDim.x); first += kSlices * kReadAtOnce) {
        const int missing = sums.add(counts.row(plane, 0) + column, first);
        if (missing >= 0) atomicMax(&board.missing, missing);
      }
      const u32 unit = plane ? kDigits : 1;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int e = j * kCountWords + column;
        if (e >= kExperts) continue;
        atomicAdd(&board.before[e], sums.before[j] * unit);
        atomicAdd(&totals[e], sums.all[j] * unit);
      }
    }
  }
  __syncthreads();
  return board.missing;
}
