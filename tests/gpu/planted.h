// A kernel of the tests alone, y = 2x, whose template can be given one planted bug, and inputs of every type
// and fill.
#pragma once

#include <string>

#include "kernels/kernel.h"

namespace moetune {

inline constexpr const char* kPlantedSource = "tests/gpu/planted.cu";
const std::string& planted_source();

// Inputs x (f32, rotating) and one of every type and fill with poison in some; output y (bf16).
const Kernel& planted_kernel();
Problem planted_problem(std::int64_t elements);

// The plan of a right kernel, or of one with the bug of that name (see planted_source).
Plan planted_plan(const std::string& bug, std::int64_t elements, const DeviceLimits& limits);

}  // namespace moetune
