// The barriers between the loading warp and the warpgroups that compute.
#pragma once

#include "templates/common/barrier.cuh"
#include "templates/common/mbarrier.cuh"
#include "templates/common/ring_place.cuh"
#include "templates/prefill_attention/work.cuh"

constexpr int kComputingWarps = 4 * kWarpgroups;
constexpr int kWideningWarps = kRawStages > 0 ? 3 : 0;  // beside the one that loads

// Shared addresses. `full` barriers complete once data has landed, `empty` ones once every computing warp is done with
// it.
struct Pipeline {
  u32 base;

  __device__ __forceinline__ explicit Pipeline(const u8* shared) : base(shared_address(shared)) {}

  __device__ __forceinline__ u32 queries(int stage) const { return base + stage * kQueryBytes; }
  __device__ __forceinline__ u32 keys(int stage) const { return base + kKeysOffset + stage * kTileBytes; }
  __device__ __forceinline__ u32 values(int stage) const { return base + kValuesOffset + stage * kValueBytes; }

  __device__ __forceinline__ u32 work_full() const { return barrier(0); }
  __device__ __forceinline__ u32 work_empty() const { return barrier(1); }
  __device__ __forceinline__ u32 raw(int stage) const { return base + kRawOffset + stage * kRawBytes; }

  __device__ __forceinline__ u32 queries_full(int stage) const { return barrier(2 + stage); }
  __device__ __forceinline__ u32 queries_empty(int stage) const { return barrier(4 + stage); }
  __device__ __forceinline__ u32 keys_full(int stage) const { return barrier(6 + stage); }
  __device__ __forceinline__ u32 keys_empty(int stage) const { return barrier(6 + kStages + stage); }
  __device__ __forceinline__ u32 values_full(int stage) const { return barrier(6 + 2 * kStages + stage); }
  __device__ __forceinline__ u32 values_empty(int stage) const { return barrier(6 + 3 * kStages + stage); }

  // Data that is widened or converted lands at barriers of its own first.
  __device__ __forceinline__ u32 raw_full(int stage) const { return barrier(6 + 4 * kStages + stage); }
  __device__ __forceinline__ u32 raw_empty(int stage) const { return barrier(6 + 4 * kStages + kRawStages + stage); }
  __device__ __forceinline__ u32 queries_landed(int stage) const {
    return kConvertsQueries ? barrier(6 + 4 * kStages + 2 * kRawStages + stage) : queries_full(stage);
  }

  // One thread calls it, before the block's first __syncthreads.
  __device__ __forceinline__ void init() const {
    mbarrier_init(work_full(), 1);
    mbarrier_init(work_empty(), (kComputingWarps + kWideningWarps) * kWarpSize);
    for (int stage = 0; stage < kQueryStages; ++stage) {
      mbarrier_init(queries_full(stage), kConvertsQueries ? kWideningWarps * kWarpSize : 1);
      if constexpr (kConvertsQueries) mbarrier_init(queries_landed(stage), 1);
      mbarrier_init(queries_empty(stage), kComputingWarps);
    }
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(keys_full(stage), kWidens ? kWideningWarps * kWarpSize : 1);
      mbarrier_init(keys_empty(stage), kComputingWarps);
      mbarrier_init(values_full(stage), kNarrow ? kWideningWarps * kWarpSize : 1);
      mbarrier_init(values_empty(stage), kComputingWarps);
    }
    for (int stage = 0; stage < kRawStages; ++stage) {
      mbarrier_init(raw_full(stage), 1);
      mbarrier_init(raw_empty(stage), kWideningWarps * kWarpSize);
    }
    mbarrier_init_fence();
  }

 private:
  __device__ __forceinline__ u32 barrier(int index) const { return base + kBarriersOffset + 8 * index; }
};
static_assert((6 + 4 * kStages + (kRawStages > 0 ? 2 * kRawStages + kQueryStages : 0)) * 8 <= kBarrierBytes,
              "barriers fit before the work");

// One arrival for the whole warp, of what only wgmma read: its waits are the warp's.
__device__ __forceinline__ void release(u32 barrier) {
  if (threadIdx.x % kWarpSize == 0) mbarrier_arrive(barrier);
}

// Releases what lanes read or wrote by themselves: each arrives for its own. (racecheck orders no lane by another's
// arrival.)
__device__ __forceinline__ void release_by_lanes(u32 barrier) { mbarrier_arrive(barrier); }

// The work that the loading warp begins, one at a time, for the other warps.
class WorkSlot {
 public:
  __device__ __forceinline__ WorkSlot(u8* shared, const Pipeline& pipeline)
      : slot_(reinterpret_cast<Work*>(shared + kWorkOffset)), pipeline_(pipeline) {}

  // The loading warp calls it.
  __device__ __forceinline__ void put(const Work& work) {
    mbarrier_wait(pipeline_.work_empty(), parity_ ^ 1);
    __syncwarp();  // a lane behind the others could miss the phase, which the first one's arrival lets go on
    if (threadIdx.x % kWarpSize == 0) {
      *slot_ = work;
      mbarrier_arrive(pipeline_.work_full());
    }
    parity_ ^= 1;
  }

  // Every thread of the computing and the widening warps calls it.
  __device__ __forceinline__ Work take() {
    mbarrier_wait(pipeline_.work_full(), parity_);
    const Work work = *slot_;
    release_by_lanes(pipeline_.work_empty());
    parity_ ^= 1;
    return work;
  }

 private:
  Work* slot_;
  Pipeline pipeline_;
  u32 parity_ = 0;
};
static_assert(sizeof(Work) <= 64);
