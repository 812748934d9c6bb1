// Segments that the copying warp hands to the other warps, and the queries that go with them.
//
// A place of the ring has a barrier that says it is filled, and one at which every lane that reads it arrives. There is
// room for the queries of one segment: warpgroup 0 says when they are read.
#pragma once

#include "templates/common/cp_async.cuh"
#include "templates/common/l2_policy.cuh"
#include "templates/common/mbarrier.cuh"
#include "templates/common/ring_place.cuh"
#include "templates/common/tma.cuh"
#include "templates/mla_decode/relay.cuh"

constexpr int kQueryThreads = 96;  // the other warps of warpgroup 3

class Segments {
 public:
  __device__ __forceinline__ explicit Segments(const Relay& relay)
      : works_(reinterpret_cast<Work*>(relay.shared + kSegmentsOffset + 16 + kSegments * 16)),
        base_(relay.base + kSegmentsOffset) {}

  __device__ __forceinline__ u32 query_full() const { return base_; }
  __device__ __forceinline__ u32 query_empty() const { return base_ + 8; }

  __device__ __forceinline__ void initialize() const {
    mbarrier_init(query_full(), kQueryThreads);
    mbarrier_init(query_empty(), 128);
    for (int place = 0; place < kSegments; ++place) {
      mbarrier_init(full(place), 1);
      mbarrier_init(empty(place), kMathThreads + kQueryThreads);
    }
    mbarrier_init_fence();
  }

  // By one warp. Work without rows, and without tiles, ends the ring.
  __device__ __forceinline__ void publish(RingPlace<kSegments>& place, const Work& work) const {
    mbarrier_wait(empty(place.index), place.parity ^ 1);
    __syncwarp();  // a lane that came later could find it read already
    if (threadIdx.x % kWarpSize == 0) {
      works_[place.index] = work;
      mbarrier_arrive(full(place.index));
    }
    place.advance();
  }

  __device__ __forceinline__ Work read(RingPlace<kSegments>& place) const {
    mbarrier_wait(full(place.index), place.parity);
    Work work = works_[place.index];
    mbarrier_arrive(empty(place.index));
    place.advance();
    // So that the compiler sees that all lanes have the same, and take the same branches.
    for (int* const field : {&work.sequence, &work.first_row, &work.rows, &work.split, &work.splits, &work.length,
                             &work.first_tile, &work.tiles}) {
      *field = __shfl_sync(kWholeWarp, *field, 0);
    }
    return work;
  }

  // The next that has tiles, or the end.
  __device__ __forceinline__ Work read_with_tiles(RingPlace<kSegments>& place) const {
    Work work = read(place);
    while (work.rows > 0 && work.tiles == 0) work = read(place);
    return work;
  }

 private:
  __device__ __forceinline__ u32 full(int place) const { return base_ + 16 + place * 8; }
  __device__ __forceinline__ u32 empty(int place) const { return full(kSegments + place); }

  Work* works_;
  u32 base_;
};

// Called by kQueryThreads threads, numbered from 0. Each segment's queries, once those of the one before are read.
__device__ __forceinline__ void bring_queries(const Relay& relay, const Segments& segments, const Element* q,
                                              const RowStrides& strides, int thread) {
  const int lane = threadIdx.x % kWarpSize;
  RingPlace<kSegments> segment;
  RingPlace<1> place;
  for (Work work = segments.read_with_tiles(segment); work.rows > 0; work = segments.read_with_tiles(segment)) {
    constexpr int kLines = kWidth * 2 / 128;  // of a row
    for (int i = thread; i < work.rows * kLines; i += kQueryThreads) {
      prefetch_to_l2(q + work.offset(strides, i / kLines) + i % kLines * 64);
    }
    mbarrier_wait(segments.query_empty(), place.parity ^ 1);
    for (int row = thread / kWarpSize; row < kQueryRows; row += kQueryThreads / kWarpSize) {
      const bool own = row < work.rows;
      const Element* const from = q + (own ? work.offset(strides, row) : 0);
#pragma unroll
      for (int i = 0; i < kLatent / 8; i += kWarpSize) {
        const int unit = i + lane;
        cp_async_16(relay.base + kQueryOffset + unit_offset(kQueryRows, row, unit), from + unit * 8, own);
      }
    }
    cp_async_commit();
    cp_async_wait<0>();
    fence_async_proxy();
    mbarrier_arrive(segments.query_full());
    place.advance();
  }
}
