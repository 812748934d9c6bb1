// Whether a built plan can run on a device at all: the static facts that prune a candidate before it
// launches. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/limits.h"
#include "kernels/plan.h"
#include "tuner/compile/build.h"

namespace moetune {

// A thread that stores and loads more than this in spilled registers is pruned: local memory traffic has made
// every such candidate a loser.
inline constexpr int kSpillLimitBytes = 512;

// Why a built plan cannot run on a device (registers, shared memory, threads, grid, cluster, spills past the
// limit), as one line; empty where it can.
std::string why_unlaunchable(const Plan& plan, const Build& build, const DeviceLimits& limits);

// What a block of so many threads takes of an SM's registers: they are handed out by the warp, 256 at a time,
// to groups of four warps.
std::int64_t allocated_registers(std::int64_t threads, int registers);

}  // namespace moetune
