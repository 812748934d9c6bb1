// The canary's partial readings, one a block, and what they say together. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "tuner/device.h"

namespace moetune {

// As templates/common/timing.cuh lays it out.
struct CanaryPartial {
  std::uint64_t begin_ns, end_ns;
  std::uint64_t lost_ns, longest_gap_ns;
  std::uint64_t windows, slow_windows;
  std::uint64_t fastest_cycles;
};

// At least one block. A gap is the longest that any block saw, slow windows are counted over all.
CanaryReading merge_canary(std::span<const CanaryPartial> blocks);

}  // namespace moetune
