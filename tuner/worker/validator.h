// When an output counts as right, as a pure rule over sums that the device made of the whole tensor.
//
// Stateless; thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/kernel.h"

namespace moetune {

// One output x against the exact reference y. Elements where both are the same special value (NaN, or the
// same infinity) are left out of the sums; those where only one is, or they differ, are counted.
struct ErrorFigures {
  double max_error = 0;  // max|x - y|
  double sum_xy = 0, sum_xx = 0, sum_yy = 0;
  std::uint64_t worst_index = 0;      // where max_error is; the lowest such
  std::uint64_t mask_mismatches = 0;  // NaN or infinite in one of the two only
  std::uint64_t first_mismatch = 0;

  double dissimilarity()
      const;  // 1 - 2 sum(xy) / sum(x^2 + y^2): 0 equal, 1 unrelated; 0 where both are all zero
};

struct Verdict {
  bool right = false;
  std::string reason;  // one line, where it is not
};

// `name` is the output's, for the message; `baseline_error` the max error of the low-precision baseline
// against the same reference. An output whose reference is zero everywhere cannot be validated unless it
// holds integers.
Verdict judge(const std::string& name, DType type, const ErrorFigures& figures, double baseline_error,
              const Tolerance& tolerance);

}  // namespace moetune
