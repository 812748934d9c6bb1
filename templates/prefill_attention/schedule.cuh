// In which order the blocks of a grid take tiles: a tile is one block of rows of one head, or a split of it.
//
// Rows that see most come first, so that short tiles fill the end. With sections, pairs of a sequence and a KV head are
// taken together, as many as stay in L2, and all sequences count as long as the longest; without, sequences follow each
// other, and one that has fewer rows costs nothing.
#pragma once

#include "templates/common/prefix_sum.cuh"
#include "templates/prefill_attention/work.cuh"

constexpr int kHeadTiles = kPacked ? 1 : kGroup;  // tiles of a KV head side by side

// Finds tiles by their numbers, which only grow. For a whole warp.
class Tiles {
 public:
  __device__ __forceinline__ explicit Tiles(const Batch& batch) : batch_(batch) {}

  // False past the last tile. Its rows may be none.
  __device__ __forceinline__ bool find(int index, Work& work) {
    work.splits = batch_.splits;
    work.split = index % batch_.splits;
    index /= batch_.splits;
    if (!(batch_.section > 0 ? in_sections(index, work) : by_sequence(index, work))) return false;
    work.head = work.kv_head * kGroup + (kPacked ? 0 : work.head);
    work.q_first = batch_.q_first(work.sequence);
    work.q_length = batch_.q_length(work.sequence);
    if constexpr (kPage == 0) {
      work.kv_first = max_of(0, batch_.kv_offsets[work.sequence]);
      work.kv_length = max_of(0, cut_to(batch_.capacity, batch_.kv_offsets[work.sequence + 1]) - work.kv_first);
    } else {
      work.kv_first = 0;
      work.kv_length = cut_to(batch_.capacity, batch_.kv_lengths[work.sequence]);
    }
    return true;
  }

 private:
  __device__ __forceinline__ bool in_sections(int index, Work& work) {
    const int pairs = batch_.batch * batch_.kv_heads;
    const int section_tiles = batch_.section * kHeadTiles * batch_.blocks;
    const int first_pair = index / section_tiles * batch_.section, within = index % section_tiles;
    if (first_pair >= pairs) return false;
    const int heads = min_of(batch_.section, pairs - first_pair) * kHeadTiles;
    if (within >= heads * batch_.blocks) return false;
    const int pair = first_pair + within % heads / kHeadTiles;
    work.sequence = pair / batch_.kv_heads;
    work.kv_head = pair % batch_.kv_heads;
    work.head = within % kHeadTiles;
    work.first_token = (batch_.blocks - 1 - within / heads) * kTokens;
    return true;
  }

  __device__ __forceinline__ bool by_sequence(int index, Work& work) {
    const int heads = batch_.kv_heads * kHeadTiles;
    while (index >= end_) {
      if (next_ >= batch_.batch) return false;
      const int lane = threadIdx.x % kWarpSize, mine = next_ + lane;
      // The grid, and the room for partial results, are for as many rows as the caller says that a sequence has.
      const int blocks =
          mine < batch_.batch ? cut_to(batch_.blocks, ceil_div(max_of(0, batch_.q_length(mine)), kTokens)) : 0;
      const int sum = warp_prefix_sum(blocks * heads, lane);
      // The first of these sequences that ends behind the tile, or the last of them.
      const u32 behind = __ballot_sync(kWholeWarp, end_ + sum > index);
      const int found = behind == 0 ? kWarpSize - 1 : __ffs(static_cast<int>(behind)) - 1;
      sequence_ = next_ + found;
      sequence_blocks_ = __shfl_sync(kWholeWarp, blocks, found);
      end_ += __shfl_sync(kWholeWarp, sum, found);
      next_ = sequence_ + 1;
    }
    const int within = index - (end_ - sequence_blocks_ * heads);
    work.sequence = sequence_;
    work.kv_head = within % heads / kHeadTiles;
    work.head = within % kHeadTiles;
    work.first_token = (sequence_blocks_ - 1 - within / heads) * kTokens;
    return true;
  }

  const Batch& batch_;
  int sequence_ = 0, sequence_blocks_ = 0;  // the one that by_sequence has reached
  int end_ = 0;                             // the number behind that sequence's last tile
  int next_ = 0;                            // the first sequence that was not counted yet
};

// The tiles of this block. `counters` are {taken, blocks that ended}, zero between launches. For a whole warp.
class Schedule {
 public:
  __device__ __forceinline__ explicit Schedule(u32* counters) : counters_(counters) {}

  __device__ __forceinline__ int first() const { return blockIdx.x; }

  // Asks for the next number. Its answer comes from memory: nothing waits for it before next() does.
  __device__ __forceinline__ int take() const {
    if (SCHEDULE != SCHEDULE_DYNAMIC || threadIdx.x % kWarpSize != 0) return 0;
    return static_cast<int>(atomicAdd(counters_, 1u));
  }

  // The number after `index`; `taken` is what take() answered.
  __device__ __forceinline__ int next(int index, int taken) const {
    const int blocks = gridDim.x, place = blockIdx.x;
    if constexpr (SCHEDULE == SCHEDULE_STATIC) {
      const int round = index / blocks + 1;
      return round * blocks + (round % 2 == 0 ? place : blocks - 1 - place);
    }
    return blocks + __shfl_sync(kWholeWarp, taken, 0);
  }

  // The last block to end leaves the counters as it found them.
  __device__ __forceinline__ void finish() const {
    if (SCHEDULE != SCHEDULE_DYNAMIC || threadIdx.x % kWarpSize != 0) return;
    __threadfence();
    if (atomicAdd(counters_ + 1, 1u) != gridDim.x - 1) return;
    counters_[0] = 0;
    counters_[1] = 0;
  }

 private:
  u32* counters_;
};
