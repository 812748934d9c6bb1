// A kernel of the tests alone, sums of the rows of a matrix, that can be told to cheat: to spare work and still look
// right. Its negative controls are what a judge must refuse.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/kernel.h"

namespace moetune {

inline constexpr const char* kCheatsSource = "tests/gpu/cheats.cu";
const std::string& cheats_source();

const Kernel& cheats_kernel();

// Long rows are read from device memory, a copy of the matrix after the other; the short ones stay in L2, and every
// launch reads the same.
inline constexpr std::int64_t kColdColumns = 16384, kWarmColumns = 4096;
Problem cheats_problem(std::int64_t columns);

// The plan of the honest kernel (`cheat` empty), or of one that cheats as cheats_source says.
Plan cheats_plan(const std::string& cheat, std::int64_t columns);

}  // namespace moetune
