// A cluster's way through its span of all tiles, found from the lengths alone by a warp, all lanes together.
//
// The spans are those of templates/decode_attention/spans.cuh. What is counted through are units: in front of an
// item's tiles lie `overhead` of them without work, for what a segment costs at its beginning and end. So no item is
// cut closer than that to its end either. An item is kGroupRows packed rows of a sequence, those of a cluster; one
// without tokens has a unit in place of tiles, for its output's sake.
#pragma once

#include "templates/common/prefix_sum.cuh"
#include "templates/decode_attention/spans.cuh"
#include "templates/mla_decode/shape.cuh"

constexpr int kItems = ceil_div(kPackedRows, kGroupRows);  // of a sequence

// An item whose parts are put together. Its first part lies in slot `first_slot`, the others in the even slots of the
// clusters that follow.
struct LedItem {
  int sequence;
  int item;
  int first_slot;
  int parts;  // 0: there is none
};

class SpanWalk {
 public:
  __device__ __forceinline__ SpanWalk(const i32* lengths, int capacity, int sequences, int overhead, int cluster,
                                      int clusters)
      : lengths_(lengths),
        capacity_(capacity),
        sequences_(sequences),
        overhead_(overhead),
        cluster_(cluster),
        spans_(count_units(), clusters) {
    find(spans_.begin(cluster), spans_.end(cluster));
    if (!walk_.done() && cut(walk_.tile) == item_tiles()) advance();
  }

  __device__ __forceinline__ bool done() const { return walk_.done() || cut(segment_end()) == 0; }

  // The share of the cluster's block of rows `row`.
  __device__ __forceinline__ Work work(int row) const {
    const ItemSplits parts = item_parts();
    Work work;
    work.sequence = walk_.sequence;
    work.first_row = walk_.head * kGroupRows + row * kRows;
    work.rows = min_of(kRows, kPackedRows - work.first_row);
    work.split = parts.slot(cluster_ - parts.first_block);
    work.splits = parts.count;
    work.length = length_;
    work.first_tile = cut(walk_.tile);
    work.tiles = length_ == 0 ? 0 : cut(segment_end()) - work.first_tile;
    return work;
  }

  // If the segment is the first of several of an item, the item.
  __device__ __forceinline__ LedItem led() const {
    const ItemSplits parts = item_parts();
    const bool leads = cut(walk_.tile) == 0 && parts.count > 1;
    return {walk_.sequence, walk_.head, parts.first_slot, leads ? parts.count : 0};
  }

  __device__ __forceinline__ void advance() {
    if (!walk_.advance(kItems)) return;
    length_ = clamp_length(upcoming_, capacity_);
    walk_.tiles = units(length_);
    look_ahead();
  }

 private:
  __device__ __forceinline__ int units(int length) const { return overhead_ + max_of(1, ceil_div(length, kTile)); }

  __device__ __forceinline__ int item_tiles() const { return walk_.tiles - overhead_; }
  __device__ __forceinline__ int segment_end() const { return walk_.tile + walk_.segment(); }

  // The item's tiles in spans that end in front of its unit `unit`, or before.
  __device__ __forceinline__ int cut(int unit) const {
    const int tile = unit - overhead_;
    return tile <= 0 ? 0 : tile >= item_tiles() - overhead_ ? item_tiles() : tile;
  }

  // The spans that have a part of the walk's item: from that of its first tile to the last whose beginning cuts it.
  __device__ __forceinline__ ItemSplits item_parts() const {
    const int begin = walk_.at - walk_.tile;
    return {spans_, begin + overhead_, begin + max_of(overhead_ + 1, item_tiles())};
  }

  __device__ __forceinline__ int count_units() const {
    int all = 0;
    for (int sequence = threadIdx.x % kWarpSize; sequence < sequences_; sequence += kWarpSize) {
      all += units(clamp_length(lengths_[sequence], capacity_));
    }
    return __reduce_add_sync(kWholeWarp, all) * kItems;
  }

  // Starts the walk at unit `first`, where there is one before `end`. Each lane counts an equal share of the sequences
  // that are left, the one with the unit is shared out again.
  __device__ __forceinline__ void find(int first, int end) {
    walk_.tile = walk_.at = walk_.end = 0;
    if (first >= end) return;
    const int lane = threadIdx.x % kWarpSize;
    int base = 0, behind = sequences_, passed = 0, share, last;
    do {
      share = ceil_div(behind - base, kWarpSize);
      const int own = base + lane * share, own_end = min_of(own + share, behind);
      int all = 0;
      for (int sequence = own; sequence < own_end; ++sequence) {
        last = clamp_length(lengths_[sequence], capacity_);
        all += units(last) * kItems;
      }
      const int to = passed + warp_prefix_sum(all, lane);
      const int found = __ffs(__ballot_sync(kWholeWarp, first < to)) - 1;
      passed = __shfl_sync(kWholeWarp, to - all, found);
      last = __shfl_sync(kWholeWarp, last, found);
      base += found * share;
      behind = min_of(base + share, behind);
    } while (share > 1);
    length_ = last;
    walk_.start(first, end, base, passed, units(length_));
    look_ahead();
  }

  // The next sequence's length is on its way while this one's tiles are worked on.
  __device__ __forceinline__ void look_ahead() { upcoming_ = lengths_[min_of(walk_.sequence + 1, sequences_ - 1)]; }

  const i32* lengths_;
  int capacity_;
  int sequences_;
  int overhead_;
  int cluster_;
  Spans spans_;
  Walk walk_;
  int length_;
  int upcoming_;
};
