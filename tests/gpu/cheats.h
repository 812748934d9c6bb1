// A kernel of the tests alone, sums of the rows of a matrix, that can be told to cheat: to spare work and still look
// right. Its negative controls are what a judge must refuse.
#pragma once

#include <string>

#include "kernels/kernel.h"

namespace moetune {

inline constexpr const char* kCheatsSource = "tests/gpu/cheats.cu";
const std::string& cheats_source();

const Kernel& cheats_kernel();
Problem cheats_problem();

// The plan of the honest kernel (`cheat` empty), or of one that cheats as cheats_source says.
Plan cheats_plan(const std::string& cheat);

}  // namespace moetune
