// Tiles handed out one at a time over the whole launch, in their order: whoever waits for a tile knows that a block has
// begun it. The loading warp takes tickets and passes them on to the block's other warps.
//
// Barriers of a slot: `posted` completes once a ticket is there, `taken` once every other warp has read it.
#pragma once

#include "templates/common/global_sync.cuh"
#include "templates/moe_experts/ring.cuh"

class Tickets {
 public:
  static constexpr int kSlots = 4;

  __device__ __forceinline__ explicit Tickets(u8* memory)
      : values_(reinterpret_cast<int*>(memory)), barriers_(shared_address(memory) + 4 * kSlots) {}

  // One thread calls it, before the block's first barrier.
  __device__ __forceinline__ void init() const {
    for (int slot = 0; slot < kSlots; ++slot) {
      mbarrier_init(posted(slot), 1);
      mbarrier_init(taken(slot), WARPS + (kHasGatherers<Up> ? kGatherers : 0));
    }
  }

  // For one thread.
  __device__ __forceinline__ void post(int ticket) {
    mbarrier_wait(taken(place_.index), place_.parity ^ 1);
    values_[place_.index] = ticket;
    mbarrier_arrive(posted(place_.index));
    place_.advance();
  }

  // For a whole warp.
  __device__ __forceinline__ int take() {
    mbarrier_wait(posted(place_.index), place_.parity);
    const int ticket = values_[place_.index];
    __syncwarp();
    if (threadIdx.x % kWarpSize == 0) mbarrier_arrive(taken(place_.index));
    place_.advance();
    return ticket;
  }

 private:
  __device__ __forceinline__ u32 posted(int slot) const { return barriers_ + 8 * slot; }
  __device__ __forceinline__ u32 taken(int slot) const { return posted(kSlots + slot); }

  int* values_;
  u32 barriers_;
  RingPlace<kSlots> place_;
};
static_assert(!FUSED || (4 + 2 * 8) * Tickets::kSlots <= kTicketBytes, "slots and their barriers");

constexpr int kFirstReady = 32;  // the first counter, the next ticket, has a line of its own

// Counters of a launch, which the next finds at zero: moe_experts_combine sees to that.
struct Counters {
  u32* next;   // ticket
  u32* ready;  // by rows of tiles: how many warps have stored their part of `between`

  static constexpr u32 kComplete = WARPS * Stages<Up>::kColumnTiles;

  __device__ __forceinline__ explicit Counters(u32* counters) : next(counters), ready(counters + kFirstReady) {}
};
