// Counts of what was picked, and of the shapes that were picked without a measurement of their own.
//
// Thread-safe and quick from many threads: each thread counts in a shard of its own, which it shares only if
// there are more threads than shards. Counting allocates nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dispatch/dispatch_table.h"
#include "kernels/family_interface.h"

namespace moetune {

struct UsageCounts {
  std::uint64_t exact = 0, nearest = 0, by_default = 0, pinned = 0, misses = 0, launches = 0;
};

// A shape as misses are counted: extents above 16 rounded up to three significant bits, because contexts grow
// by one at every step. If there is no room for all shapes the frequent ones stay, and their counts are lower
// bounds.
struct MissedShape {
  Extents extents;
  bool ragged = false;
  std::uint64_t count = 0;
};

// The extents one step of that rounding lower: at most those that were picked.
Extents a_step_less(const Extents& extents);

class Usage {
 public:
  Usage();

  // `cell` holds nothing for a miss.
  void count_pick(const Cell& cell, const Extents& extents, bool ragged) {
    const std::size_t own = own_shard();
    Shard& shard = (*shards_)[own];
    const std::size_t kind = cell.entry == Cell::kNone ? kMiss : static_cast<std::size_t>(cell.kind);
    shard.counts[kind].fetch_add(1, std::memory_order_relaxed);
    if (kind != static_cast<std::size_t>(ChoiceKind::exact) && kind != static_cast<std::size_t>(ChoiceKind::pinned))
      remember(own, extents, ragged);
  }
  void count_launch() { (*shards_)[own_shard()].counts[kLaunch].fetch_add(1, std::memory_order_relaxed); }

  UsageCounts counts() const;
  // Most frequent first; equal ones in order of extents.
  std::vector<MissedShape> missed() const;

 private:
  static constexpr std::size_t kShards = 64, kShapes = 128, kProbes = 8;
  static constexpr std::size_t kMiss = 4, kLaunch = 5, kKinds = 6;

  // Space-saving counts (Metwally et al. 2005): a newcomer takes the place of the rarest with its rank, so that
  // whatever comes often enough stays.
  struct alignas(64) Shape {
    Extents extents;
    bool ragged = false;
    std::uint64_t rank = 0;       // at least how often it came; 0: empty
    std::uint64_t inherited = 0;  // of the rank, from those whose place it took
  };
  // The counters of one thread, at least a cache line apart from the next.
  struct alignas(128) Shard {
    std::array<std::atomic<std::uint64_t>, kKinds> counts{};
    std::atomic_flag busy;  // guards its shapes
    bool has_shapes = false;
  };
  struct Release {
    void operator()(Shape* memory) const { std::allocator<Shape>().deallocate(memory, kShards * kShapes); }
  };

  static std::size_t own_shard();
  void remember(std::size_t shard, const Extents& extents, bool ragged);
  std::span<Shape> shapes_of(std::size_t shard) const { return {shapes_.get() + shard * kShapes, kShapes}; }

  std::unique_ptr<std::array<Shard, kShards>> shards_;
  std::unique_ptr<Shape, Release> shapes_;  // of every shard; not touched before it has one: most have none
};

}  // namespace moetune
