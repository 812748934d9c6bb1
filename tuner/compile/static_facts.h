// What a compiled plan states of itself before it runs, as the numbers that a strategy learns from
// (search/searcher.h). Pure functions.
#pragma once

#include <array>
#include <string_view>

#include "kernels/limits.h"
#include "kernels/plan.h"
#include "search/searcher.h"
#include "tuner/compile/build.h"

namespace moetune {

inline constexpr std::array<std::string_view, 12> kFactNames = {
    "registers",        // a thread
    "spill_bytes",      // a thread, stored and loaded
    "shared_bytes",     // a block, static and dynamic
    "resident_blocks",  // an SM, by registers, shared memory and threads
    "resident_warps",   // an SM
    "blocks",           // of the grid
    "wave_share",       // of the slots of all its waves of blocks, those that hold one
    "cubin_bytes",
    // The kernel's machine code (tuner/compile/instruction_mix.h): how much of it there is, which tells how
    // far ptxas unrolled and specialized, and what share of it feeds the three units that a kernel of matrix
    // products and exponentials waits for beside memory. Copies, shuffles and plain arithmetic are left out:
    // each fact is an axis that a search pays for. 0 where the code cannot be read.
    "instructions", "tensor_share",
    "shared_share",   // of loads and stores of shared memory
    "special_share",  // of exponentials and reciprocals
};

// In the order of kFactNames, of the launch whose blocks take the most of an SM; the first of equals. Empty
// where the build failed, lacks an entry, or holds a block that fits no SM.
Facts static_facts(const Plan& plan, const Build& build, const DeviceLimits& limits);

// How many blocks of a launch an SM holds at once. 0 where not one fits.
std::int64_t resident_blocks(const Launch& launch, const EntryFacts& facts, const DeviceLimits& limits);

}  // namespace moetune
