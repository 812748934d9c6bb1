// From ids to counts, offsets and permutations. Slots (token * kTopK + j) are placed in their order, so that every
// run gives the same: a block takes a range of tokens, a warp a range of its slots, 32 at a time.
#pragma once

#include "templates/common/shared_memory.cuh"
#include "templates/router/schedule.cuh"
#include "templates/router/segments.cuh"

struct PlaceArguments {
  int* counts;    // [kExperts], of the slots that were placed
  int* offsets;   // [kExperts + 1], multiples of kAlign; not of equal segments
  int* sorted;    // [places]: the slot, or tokens * kTopK for padding
  int* inverse;   // [tokens * kTopK]: the place, or -1 for a slot beyond its expert's capacity
  int* grouping;  // as kGrouping says: [places / kAlign], [places] (-1 for padding) or [kExperts]
  // Scratch [gridDim.x, kExperts]: counts first, then how many slots come in blocks before. With the barrier schedule
  // the words of GridCounts (exchange.cuh).
  int* block_counts;
  int tokens, capacity, places;
  u8* dropped;  // [tokens * kTopK]: 1 for a slot beyond its expert's capacity
};

constexpr int kChunks = ceil_div(kExperts, kWarpSize);

// The segments of all experts, in shared memory.
struct Layout {
  int counts[kExperts];
  int offsets[kExperts + 1];
  int flag;             // of arrives_last
  int places[kChunks];  // of the experts of a chunk, while segments are laid out
};

// In dynamic shared memory.
struct Tally {
  u32 before[kWarps][kExperts];  // slots of the expert that come before this warp's, in the end of the whole grid
  Layout layout;
};

__device__ __forceinline__ Tally& tally_memory() { return *reinterpret_cast<Tally*>(dynamic_shared()); }

struct SlotRange {
  int begin, end;

  // The calling warp's share.
  __device__ __forceinline__ SlotRange of_warp() const {
    const int each = ceil_div(ceil_div(end - begin, kWarpSize), kWarps) * kWarpSize;
    const int first = begin + int(threadIdx.x) / kWarpSize * each;
    return {min_of(first, end), min_of(first + each, end)};
  }
};

// Calls `use(slot, segment, position)` for the calling warp's slots, in all lanes together: position is how many of
// the warp's slots before it go to the same segment, plus what `before` held; slot is -1 in lanes without one, and
// segment for slots that go nowhere. `segments(slot)` gives a slot's segment, or -1.
template <typename Segments, typename Use>
__device__ __forceinline__ void for_each_slot(u32* before, const Segments& segments, SlotRange range, Use use) {
  const int lane = int(threadIdx.x) % kWarpSize;
  for (int first = range.begin; first < range.end; first += kWarpSize) {
    const int slot = first + lane < range.end ? first + lane : -1;
    const int segment = slot >= 0 ? segments(slot) : -1;
    const u32 same = __match_any_sync(kWholeWarp, segment);
    const u32 rank = __popc(same & ((1u << lane) - 1));
    const u32 position = segment >= 0 ? before[segment] + rank : 0;
    __syncwarp();
    if (segment >= 0 && rank == 0) before[segment] += __popc(same);
    __syncwarp();
    use(slot, segment, position);
  }
}

// Leaves in `before` what each warp's slots are preceded by within the block, in `counts` the block's counts. The block
// may have stored the ids just before: a barrier comes before they are read.
template <typename Segments>
__device__ __forceinline__ void tally_block(Tally& tally, const Segments& segments, SlotRange range) {
  for (int i = threadIdx.x; i < kWarps * kExperts; i += kThreads) (&tally.before[0][0])[i] = 0;
  __syncthreads();
  u32* own = tally.before[threadIdx.x / kWarpSize];
  for_each_slot(own, segments, range.of_warp(), [](int, int, u32) {});
  __syncthreads();
  for (int e = threadIdx.x; e < kExperts; e += kThreads) {
    u32 sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const u32 count = tally.before[w][e];
      tally.before[w][e] = sum;
      sum += count;
    }
    tally.layout.counts[e] = int(sum);
  }
  __syncthreads();
}

// Adds slots that come before the block's, which `count_of(expert)` gives, to what its warps are preceded by.
template <typename CountOf>
__device__ __forceinline__ void add_before(Tally& tally, CountOf count_of) {
  for (int e = threadIdx.x; e < kExperts; e += kThreads) {
    const u32 sum = u32(count_of(e));
#pragma unroll
    for (int w = 0; w < kWarps; ++w) tally.before[w][e] += sum;
  }
}

// From all slots' counts, which `count_of(expert)` gives: caps them, and adds up the segments. A warp takes a chunk of
// 32 experts at a time, and learns from shared memory how many places the chunks before have.
template <typename CountOf>
__device__ __forceinline__ void lay_out(Layout& layout, int capacity, CountOf count_of) {
  constexpr int kRounds = ceil_div(kChunks, kWarps);
  const int lane = int(threadIdx.x) % kWarpSize, warp = int(threadIdx.x) / kWarpSize;
  int sums[kRounds];
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const int chunk = warp + round * kWarps, e = chunk * kWarpSize + lane;
    const int count = e < kExperts ? min_of(count_of(e), capacity) : 0;
    const int own = e < kExperts ? padded(count) : 0;
    const int places = __reduce_add_sync(kWholeWarp, own);
    if (chunk < kChunks) layout.places[chunk] = places;
    if (e < kExperts) layout.counts[e] = count;
    sums[round] = own;
#pragma unroll
    for (int distance = 1; distance < kWarpSize; distance *= 2) {
      const int other = __shfl_up_sync(kWholeWarp, sums[round], distance);
      if (lane >= distance) sums[round] += other;
    }
  }
  __syncthreads();
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const int chunk = warp + round * kWarps, e = chunk * kWarpSize + lane;
    const int before = __reduce_add_sync(kWholeWarp, lane < min_of(chunk, kChunks) ? layout.places[lane] : 0);
    if (e < kExperts) layout.offsets[e + 1] = before + sums[round];
  }
  if (threadIdx.x == 0) layout.offsets[0] = 0;
  __syncthreads();
}

// The counts are those of `layout`.
__device__ __forceinline__ void lay_out(Layout& layout, int capacity) {
  lay_out(layout, capacity, [&](int expert) { return layout.counts[expert]; });
}

// Every `sharers`-th expert, from the `rank`-th on.
__device__ __forceinline__ void store_layout(const PlaceArguments& a, const Layout& layout, int rank, int sharers) {
#pragma unroll 1
  for (int e = rank + int(threadIdx.x) * sharers; e <= kExperts; e += kThreads * sharers) {
    if constexpr (kSegment == 0) a.offsets[e] = layout.offsets[e];
    if (e == kExperts) continue;
    a.counts[e] = layout.counts[e];
    if constexpr (kGrouping == Grouping::ends) a.grouping[e] = layout.offsets[e + 1];
  }
}

__device__ __forceinline__ void load_layout(const PlaceArguments& a, Layout& layout) {
  for (int e = threadIdx.x; e <= kExperts; e += kThreads) {
    layout.offsets[e] = kSegment > 0 ? e * kSegment : a.offsets[e];
    if (e < kExperts) layout.counts[e] = a.counts[e];
  }
}

// `place` is -1 for a slot without one. A slot that is `wanted` has an expert here.
__device__ __forceinline__ void store_place(const PlaceArguments& a, int slot, int segment, bool wanted, int place) {
  a.inverse[slot] = place;
  if constexpr (kDropped) a.dropped[slot] = u8(wanted && place < 0);
  if (place < 0) return;
  a.sorted[place] = slot;
  if constexpr (kGrouping == Grouping::rows) a.grouping[place] = segment;
  // A segment's slots come before its padding, so that each of its blocks begins with one.
  if constexpr (kGrouping == Grouping::blocks) {
    if (place % kAlign == 0) a.grouping[place / kAlign] = segment;
  }
}

// The slots of this block.
template <typename Segments>
__device__ __forceinline__ void place_slots(const PlaceArguments& a, Tally& tally, const Segments& segments,
                                            SlotRange range) {
  u32* own = tally.before[threadIdx.x / kWarpSize];
  for_each_slot(own, segments, range.of_warp(), [&](int slot, int segment, u32 position) {
    if (slot < 0) return;
    const bool fits = segment >= 0 && int(position) < a.capacity;
    const int place = fits ? tally.layout.offsets[segment] + int(position) : -1;
    store_place(a, slot, segment, segment >= 0, place);
  });
}

// Threads of the grid that pad: those of each block but the first `busy`, which place slots meanwhile.
struct Padders {
  int thread, threads;  // the calling one; negative for one of the busy

  __device__ __forceinline__ explicit Padders(int busy = 0)
      : thread(int(threadIdx.x) < busy ? -1 : int(blockIdx.x) * (kThreads - busy) + int(threadIdx.x) - busy),
        threads(int(gridDim.x) * (kThreads - busy)) {}
};

// Returns how many threads of a block are busy with that many slots: whole warps. 0 if it were more than half of them.
__device__ __forceinline__ int busy_threads(int slots) {
  const int busy = ceil_div(slots, kWarpSize) * kWarpSize;
  return busy <= kThreads / 2 ? busy : 0;
}

// Stores `value` `count` times: the padders together, 16 bytes each.
__device__ __forceinline__ void fill(int* begin, int count, int value, Padders padders) {
  const int thread = padders.thread, threads = padders.threads;
  const int head = min_of(count, int(-(reinterpret_cast<u64>(begin) / sizeof(int)) & 3));
  const int vectors = (count - head) / 4, tail = head + vectors * 4;
  int4* const aligned = reinterpret_cast<int4*>(begin + head);
#pragma unroll 1
  for (int i = thread; i < vectors; i += threads) aligned[i] = make_int4(value, value, value, value);
  if (thread < head) begin[thread] = value;
  if (tail + thread < count) begin[tail + thread] = value;
}

// Places and blocks from `place` on have no expert.
__device__ __forceinline__ void pad_from(const PlaceArguments& a, int place, Padders padders) {
  fill(a.sorted + place, a.places - place, a.tokens * kTopK, padders);
  if constexpr (kGrouping == Grouping::rows) fill(a.grouping + place, a.places - place, -1, padders);
  if constexpr (kGrouping == Grouping::blocks)
    fill(a.grouping + place / kAlign, (a.places - place) / kAlign, -1, padders);
}

// Comes before tokens are routed. Slots may be placed once all blocks are known to be done.
__device__ __forceinline__ void pad_first(const PlaceArguments& a) {
  if constexpr (kPad == Pad::first) pad_from(a, 0, Padders());
}

// Pads this block's share of what has no slot. Segments must be laid out.
__device__ __forceinline__ void pad_last(const PlaceArguments& a, const Layout& layout, int busy = 0) {
  if constexpr (kPad == Pad::first) return;
  constexpr int kMost = kSegment > 0 ? kSegment : kAlign > 1 ? kAlign : 0;  // of an expert's padding
  const Padders padders(busy);
  if (padders.thread < 0) return;
#pragma unroll 2
  for (int i = padders.thread; i < kExperts * kMost; i += padders.threads) {
    const int e = i / max_of(kMost, 1), p = layout.offsets[e + 1] - 1 - i % max_of(kMost, 1);
    if (p < layout.offsets[e] + layout.counts[e]) continue;
    a.sorted[p] = a.tokens * kTopK;
    if constexpr (kGrouping == Grouping::rows) a.grouping[p] = -1;
  }
  pad_from(a, layout.offsets[kExperts], padders);
}
