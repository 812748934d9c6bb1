// Whether a built plan can run on a device, and whether it is worth running: what prunes a candidate before it
// launches. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/limits.h"
#include "kernels/plan.h"
#include "tuner/compile/build.h"

namespace moetune {

// Why a built plan cannot run on a device (registers, shared memory, threads, grid, cluster), as one line;
// empty if it can.
std::string why_unlaunchable(const Plan& plan, const Build& build, const DeviceLimits& limits);

// Why a search need not measure it: a thread stores and loads more than 512 bytes in spilled registers. Empty if none
// does. A guess at speed: such configurations were all slow, and a plan that is pruned for it can run all the same.
std::string why_spilling(const Plan& plan, const Build& build);

// The same: ptxas let no wgmma begin before the one before it has ended, which takes up to twice as long. Empty if it
// has not.
std::string why_serialized(const Plan& plan, const Build& build);

// The registers that a block of so many threads takes of an SM: they are allocated by the warp, 256 at a time, to
// groups of four warps.
std::int64_t allocated_registers(std::int64_t threads, int registers);

}  // namespace moetune
