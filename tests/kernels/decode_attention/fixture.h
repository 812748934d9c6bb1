// What the tests of decode_attention share.
#pragma once

#include <string>

#include "kernels/registry.h"
#include "search/space.h"
#include "tests/kernels/kernel_checks.h"

namespace moetune::decode_attention_tests {

inline const Kernel& kernel() { return find_kernel("decode_attention"); }

inline Problem problem(const std::string& text) { return checked_problem("decode_attention", text); }

inline const Space& space() { return shared_space("decode_attention"); }

}  // namespace moetune::decode_attention_tests
