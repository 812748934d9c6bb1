// kv_transfer by the bulk copy engine (sm_90+): a warp asks for parts of pages, which come to a ring in shared memory
// and leave from there. No value passes through a register.
//
// Macros: those of shape.cuh, STAGE_ROWS (rows of a part), STAGES (parts that the ring holds), HINT (1: what is read
// and written is the first to leave L2).
#pragma once

#include "templates/common/bulk_copy.cuh"
#include "templates/common/l2_policy.cuh"
#include "templates/common/mbarrier.cuh"
#include "templates/common/ring_place.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/kv_transfer/shape.cuh"

constexpr int kStageRows = STAGE_ROWS, kStages = STAGES, kParts = ceil_div(kRows, kStageRows);
constexpr u32 kRowBytes = kWidth * sizeof(Source), kStageBytes = kStageRows * kRowBytes;
// Stores that may still read the ring when the next load is asked for.
constexpr int kLag = max_of(1, kStages / 4);
static_assert(!kConverts && kStages >= 2 && kRowBytes % 16 == 0, "the space keeps to it");

struct Part {
  const Source* from;
  Target* to;
  int row, rows;
};

// The parts of a block that there is something to move of, one after the other.
struct Parts {
  const End<const Source>& from;
  const End<Target>& to;
  u32 count, next;

  __device__ __forceinline__ bool find(Part& part) {
    for (; next < count; next += gridDim.x) {
      const u32 copy = next / kParts;
      const int plane = int(copy % kPlanes), page = int(copy / kPlanes);
      part.from = from.page_at(plane, page);
      part.to = to.page_at(plane, page);
      if (part.from == nullptr || part.to == nullptr) continue;
      part.row = int(next % kParts) * kStageRows;
      part.rows = min_of(kStageRows, kRows - part.row);
      next += gridDim.x;
      return true;
    }
    return false;
  }
};

// Calls copy(offset of the rows in the stage, their first element at this end, bytes): one lane if rows lie side by
// side, else all lanes.
template <typename Element, typename Copy>
__device__ __forceinline__ void each_run(const End<Element>& end, Element* page, const Part& part, Copy copy) {
  const int lane = int(threadIdx.x);
  if (end.is_dense()) {
    if (lane == 0) copy(0u, page + i64(part.row) * kWidth, part.rows * kRowBytes);
    return;
  }
  for (int r = lane; r < part.rows; r += kWarpSize) copy(r * kRowBytes, page + end.row_at(part.row + r), kRowBytes);
}

// By one warp, whose lanes stay together.
__device__ __forceinline__ void move_by_bulk_copies(const End<const Source>& from, const End<Target>& to, int pages) {
  const u32 ring = shared_address(dynamic_shared()), full = ring + kStages * kStageBytes;
  const u64 policy = l2_policy(HINT);
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) mbarrier_init(full + s * 8, 1);
    mbarrier_init_fence();
  }
  __syncwarp();
  Parts loads{from, to, u32(pages) * kPlanes * kParts, blockIdx.x}, stores = loads;
  RingPlace<kStages> filled, read;
  Part part;
  const auto load = [&] {
    const u32 slot = ring + filled.index * kStageBytes, barrier = full + filled.index * 8;
    if (threadIdx.x == 0) mbarrier_arrive_expect(barrier, part.rows * kRowBytes);
    __syncwarp();
    each_run(from, part.from, part, [&](u32 offset, const Source* rows, u32 bytes) {
      bulk_load(slot + offset, rows, bytes, barrier, policy);
    });
    filled.advance();
  };
  for (int s = 0; s < kStages && loads.find(part); ++s) load();
  for (int stored = 1; stores.find(part); ++stored) {
    const u32 slot = ring + read.index * kStageBytes;
    mbarrier_wait(full + read.index * 8, read.parity);
    each_run(to, part.to, part,
             [&](u32 offset, Target* rows, u32 bytes) { bulk_store(rows, slot + offset, bytes, policy); });
    bulk_store_commit();
    read.advance();
    if (stored <= kLag || !loads.find(part)) continue;
    bulk_store_wait_read<kLag>();  // of each lane's own; the ring's oldest slot is free
    __syncwarp();
    load();
  }
  bulk_store_wait();
}
