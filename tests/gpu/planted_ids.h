// A kernel of the tests alone with an output for each kind of check, and one that is read and written; its
// template can be given one planted bug in one of them.
#pragma once

#include <string>

#include "kernels/kernel.h"

namespace moetune {

inline constexpr const char* kPlantedIdsSource = "tests/gpu/planted_ids.cu";
const std::string& planted_ids_source();

const Kernel& planted_ids_kernel();
Problem planted_ids_problem(std::int64_t elements);  // a multiple of 16

// The plan of a right kernel (`bug` empty), or of one with a bug ("OFF_BY_1", see planted_ids_source) in the
// output of that name.
Plan planted_ids_plan(const std::string& output, const std::string& bug, std::int64_t elements);

}  // namespace moetune
