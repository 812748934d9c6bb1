// A block's way through its span of a persistent grid's tiles, found from the lengths alone by a warp, all
// lanes together.
#pragma once

#include "templates/common/prefix_sum.cuh"
#include "templates/decode_attention/arguments.cuh"

class SpanWalk {
 public:
  // `settled`: before the wait.
  __device__ __forceinline__ SpanWalk(const i32* lengths, int capacity, int batch, int heads, bool settled)
      : lengths_(lengths),
        capacity_(capacity),
        batch_(batch),
        heads_(heads),
        settled_(settled),
        spans_(count_tiles(), gridDim.x) {}

  // To the first segment; false where there is none.
  __device__ __forceinline__ bool enter() { return find(spans_.begin(blockIdx.x), spans_.end(blockIdx.x)); }

  // To the last tile; true where that is of an item that begins in the span and goes on in another's.
  __device__ __forceinline__ bool enter_led_item() {
    const int begin = spans_.begin(blockIdx.x), end = spans_.end(blockIdx.x);
    if (begin >= end || !find(end - 1, end)) return false;
    const int item_begin = walk_.at - walk_.tile;
    return item_begin >= begin && item_begin + walk_.tiles > end;
  }

  // Over the segments of the span if all sequences had `length` tokens.
  static __device__ __forceinline__ SpanWalk of_equal_lengths(int length, int batch, int heads) {
    const int tiles = head_tiles(length), sequence_tiles = tiles * heads;
    SpanWalk made(batch, heads, Spans(batch * sequence_tiles, gridDim.x));
    const int first = made.spans_.begin(blockIdx.x), sequence = first / sequence_tiles;
    made.walk_.start(first, made.spans_.end(blockIdx.x), sequence, sequence * sequence_tiles, tiles);
    made.length_ = length;
    return made;
  }

  // As many tiles in all: where no sequence of either has more than the longest, the walks are the same.
  __device__ __forceinline__ bool matches(const SpanWalk& other) const { return spans_.tiles == other.spans_.tiles; }

  __device__ __forceinline__ bool done() const { return walk_.done(); }
  __device__ __forceinline__ Work work() const { return {walk_, spans_, length_, heads_}; }

  __device__ __forceinline__ void advance() {
    if (!walk_.advance(heads_)) return;
    length_ = clamp_length(upcoming_, capacity_);
    walk_.tiles = head_tiles(length_);
    look_ahead();
  }

 private:
  __device__ __forceinline__ SpanWalk(int batch, int heads, const Spans& spans)
      : lengths_(nullptr), capacity_(0), batch_(batch), heads_(heads), settled_(false), spans_(spans) {}

  __device__ __forceinline__ int length_of(int sequence) const {
    return clamp_length(settled_ ? read_settled(lengths_ + sequence) : lengths_[sequence], capacity_);
  }

  __device__ __forceinline__ int count_tiles() const {
    int tiles = 0;
    for (int sequence = threadIdx.x % kWarpSize; sequence < batch_; sequence += kWarpSize) {
      tiles += head_tiles(length_of(sequence));
    }
    return __reduce_add_sync(kWholeWarp, tiles) * heads_;
  }

  // Starts the walk at tile `first`; false where there is none before `end`.
  __device__ __forceinline__ bool find(int first, int end) {
    walk_.at = walk_.end = 0;
    if (first >= end) return false;
    const int lane = threadIdx.x % kWarpSize;
    int passed = 0;
    for (int base = 0; base < batch_; base += kWarpSize) {
      const int length = base + lane < batch_ ? length_of(base + lane) : 0;
      const int tiles = base + lane < batch_ ? head_tiles(length) : 0;
      const int sequence_end = passed + warp_prefix_sum(tiles * heads_, lane);
      const u32 beyond = __ballot_sync(kWholeWarp, first < sequence_end);
      if (beyond != 0) {
        const int found = __ffs(beyond) - 1;
        length_ = __shfl_sync(kWholeWarp, length, found);
        walk_.start(first, end, base + found, __shfl_sync(kWholeWarp, sequence_end - tiles * heads_, found),
                    __shfl_sync(kWholeWarp, tiles, found));
        look_ahead();
        return true;
      }
      passed = __shfl_sync(kWholeWarp, sequence_end, kWarpSize - 1);
    }
    return false;
  }

  // The next sequence's length is on its way while this one's tiles are worked on.
  __device__ __forceinline__ void look_ahead() {
    const i32* const next = lengths_ + min_of(walk_.sequence + 1, batch_ - 1);
    upcoming_ = settled_ ? read_settled(next) : *next;  // clamped when it is needed
  }

  const i32* lengths_;
  int capacity_;
  int batch_;
  int heads_;
  bool settled_;
  Spans spans_;
  Walk walk_;
  int length_;
  int upcoming_;
};
