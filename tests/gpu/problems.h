// Small problems that reach the corners of every registered kernel.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace moetune {

// Small enough for the float64 reference on the CPU. A kernel without a list here gets its schema's defaults
// cut to the minimum of every integer dimension. None if MOETUNE_GPU_KERNEL names another kernel.
std::vector<Problem> small_problems(const Kernel& kernel);

}  // namespace moetune
