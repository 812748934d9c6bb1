// What tests of the router's templates share.
#pragma once

#include <cmath>

#include "kernels/kernel_space.h"
#include "tests/simt/simt_problem.h"

namespace moetune::testing {

inline SimtProblem routed_problem(const std::string& text) {
  SimtProblem routed("router", text, 5);  // several tokens a block, in few blocks
  routed.call.reals[0] = 2.5;
  return routed;
}

// Integers must be equal, weights within what the emulator's and the host's exponentials differ.
inline bool is_right_routing(const std::string& output, double got, double right) {
  const double error = std::abs(got - right);
  return output == "weights" ? error <= 1e-5 * (1 + std::abs(right)) : error == 0;
}

}  // namespace moetune::testing
