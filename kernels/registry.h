// Every kernel there is, by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"

namespace moetune {

// In a fixed order; the references stay valid for the life of the process.
const std::vector<const Kernel*>& all_kernels();

// Null for an unknown name.
const Kernel* known_kernel(std::string_view name);

// Throws BadInput for an unknown name, suggesting the nearest.
const Kernel& find_kernel(std::string_view name);

// The problem by what differs from the kernel's default, or from a preset if that is shorter:
// "batch=16", "qwen3-30b-a3b batch=16"; "default". The text itself for a kernel or a problem that moetune
// does not know.
std::string brief_problem(const std::string& kernel, const std::string& problem);

}  // namespace moetune
