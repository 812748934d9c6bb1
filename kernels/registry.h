// Every kernel there is, by name.
#pragma once

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

}  // namespace moetune
