// The segments that a persistent block's first producer copies, for the other warps: their work, and the query to go
// with it. Each place of the ring has a barrier that says it is filled, and one that says all have read it.
#pragma once

#include "templates/common/cp_async.cuh"
#include "templates/common/mbarrier.cuh"
#include "templates/common/ring_place.cuh"
#include "templates/decode_attention/math.cuh"

class SegmentRing {
 public:
  __device__ __forceinline__ explicit SegmentRing(u8* shared) : shared_(shared) {}

  // By one thread, before any other uses the ring.
  __device__ __forceinline__ void initialize() const {
    for (int place = 0; place < kSegments; ++place) {
      mbarrier_init(full(place), kWarpSize + 1);
      mbarrier_init(empty(place), (kWarps + kProducers - 1) * kWarpSize);
    }
  }

  // By one warp. Work without tiles ends the ring, and has no query.
  __device__ __forceinline__ void publish(const RingPlace<kSegments>& state, const Work& work,
                                          const Queries& queries) const {
    const int lane = threadIdx.x % kWarpSize;
    mbarrier_wait(empty(state.index), state.parity ^ 1);
    const bool asks = work.tiles > 0;
    if (asks) stage_query(shared_ + state.index * kQueryBytes, queries, work, lane, kWarpSize);
    if (lane == 0) {
      works()[state.index] = work;
      mbarrier_arrive(full(state.index));
    }
    if (kQueryAsync && asks) {
      cp_async_arrive(full(state.index));
    } else {
      mbarrier_arrive(full(state.index));
    }
  }

  // Waits for the segment. The place is the reader's until it releases it.
  __device__ __forceinline__ Work read(const RingPlace<kSegments>& state) const {
    mbarrier_wait(full(state.index), state.parity);
    return works()[state.index];
  }

  // By every lane of every warp that reads: each arrives for what it read itself.
  __device__ __forceinline__ void release(const RingPlace<kSegments>& state) const {
    mbarrier_arrive(empty(state.index));
  }

 private:
  static constexpr int kWorksOffset = kSegmentsOffset + 2 * kSegments * 8;
  static_assert(2 * kSegments * 8 + kSegments * sizeof(Work) <= kSegmentsBytes, "the plan leaves room for it");

  __device__ __forceinline__ u32 full(int place) const { return shared_address(shared_ + kSegmentsOffset) + 8 * place; }
  __device__ __forceinline__ u32 empty(int place) const { return full(kSegments + place); }
  __device__ __forceinline__ Work* works() const { return reinterpret_cast<Work*>(shared_ + kWorksOffset); }

  u8* shared_;
};
