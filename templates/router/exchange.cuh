// How blocks learn from each other how many slots of each expert come before theirs, and in all: through global memory,
// behind a barrier over the grid. Leaves `before` and `layout.counts`.
#pragma once

#include "templates/router/arrival.cuh"
#include "templates/router/board.cuh"

constexpr int kReadAtOnce = 17;  // words of counts that a thread waits for together

// Counts of a block's tokens in bytes, four experts in a word; of a block of more tokens than a byte counts a second
// plane of them holds the high bytes. Expert j * kCountWords + c is byte j of word c: neighbouring threads add to
// neighbouring banks.
constexpr int kCountWords = ceil_div(kExperts, 4);

struct GridCounts {
  u32* words;      // [planes, gridDim.x, kCountWords]
  int block_size;  // tokens of a block, the last may have fewer

  __device__ __forceinline__ int planes() const { return block_size > 255 ? 2 : 1; }
  __device__ __forceinline__ u32* row(int plane, int block) const {
    return words + (i64(plane) * gridDim.x + block) * kCountWords;
  }

  // `count_of(expert)` gives what the block has.
  template <typename CountOf>
  __device__ __forceinline__ void store(int block, CountOf count_of) const {
    for (int i = threadIdx.x; i < kCountWords * planes(); i += kThreads) {
      const int column = i % kCountWords, plane = i / kCountWords;
      u32 word = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int e = j * kCountWords + column;
        if (e < kExperts) word |= (count_of(e) >> 8 * plane & 0xff) << 8 * j;
      }
      row(plane, block)[column] = word;
    }
  }
};

// Sums of a word's four bytes.
struct ByteSums {
  u32 even = 0, odd = 0;  // bytes 0 and 2, 1 and 3: of up to 257 words

  __device__ __forceinline__ void add(u32 word) {
    even += word & 0xff00ff;
    odd += word >> 8 & 0xff00ff;
  }
  __device__ __forceinline__ u32 of(int byte) const {
    return ((byte % 2 ? odd : even) >> (byte / 2 * 16)) & 0xffff;
  }
};

// Threads that share a column of counts, each of which takes every kSlices-th block.
constexpr int kSlices = max_of(1, kThreads / kCountWords);

// Counts of earlier blocks, and of all.
struct ColumnSums {
  u32 before[4] = {}, all[4] = {};

  // A column's words of block `first` and the slice's next, all waited for together.
  __device__ __forceinline__ void add(const u32* column, int first) {
    const int own = int(blockIdx.x), count = int(gridDim.x);
    const u32* const begin = column + i64(first) * kCountWords;
    u32 loaded[kReadAtOnce];
#pragma unroll
    for (int b = 0; b < kReadAtOnce; ++b) {
      loaded[b] = first + b * kSlices < count ? __ldcg(begin + b * kSlices * kCountWords) : 0;
    }
    ByteSums of_before, of_all;
#pragma unroll
    for (int b = 0; b < kReadAtOnce; ++b) {
      of_all.add(loaded[b]);
      of_before.add(first + b * kSlices < own ? loaded[b] : 0);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      before[j] += of_before.of(j);
      all[j] += of_all.of(j);
    }
  }
};

// After the barrier.
__device__ __forceinline__ void add_up_grid(Board& board, const GridCounts& counts) {
  u32* const totals = reinterpret_cast<u32*>(board.layout.counts);
  for (int i = threadIdx.x; i < kCountWords * kSlices; i += kThreads) {
    const int column = i % kCountWords;
#pragma unroll 1
    for (int plane = 0; plane < counts.planes(); ++plane) {
      ColumnSums sums;
#pragma unroll 1
      for (int first = i / kCountWords; first < int(gridDim.x); first += kSlices * kReadAtOnce)
        sums.add(counts.row(plane, 0) + column, first);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int e = j * kCountWords + column;
        if (e >= kExperts) continue;
        atomicAdd(&board.before[e], sums.before[j] << 8 * plane);
        atomicAdd(&totals[e], sums.all[j] << 8 * plane);
      }
    }
  }
  __syncthreads();
}
