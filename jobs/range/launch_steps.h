// How far configurations of one cubin lie from each other: steps between their run-time values, those of a parameter
// counted longer the less its steps were seen to change times. Who tries the nearest ones first looks at what matters.
// Named values are one step apart.
//
// On the six recorded shapes of decode_attention eight tries, from what is best for a cubin at another shape, end 2.1%
// (mean) and 7.0% (95 of 100) slower than its best run-time values by plain steps, 0.6% and 4.0% by these
// (tests/jobs/range/launch_steps_test.cc).
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "search/legal_space.h"
#include "search/parameter.h"

namespace moetune {

class LaunchSteps {
 public:
  using Point = std::span<const Position>;

  explicit LaunchSteps(const std::vector<Parameter>& parameters);

  struct Timed {
    std::vector<Position> point;
    double time_us = 0;  // infinity for what does not run
  };
  // Takes configurations of one cubin, timed on one problem.
  void learn(const std::vector<Timed>& siblings);

  double distance(Point a, Point b) const;

 private:
  struct AtLaunch {
    std::size_t place;  // among the parameters
    bool is_named;
    double change = 0;  // of the logarithm of a time, summed over steps
    std::size_t seen = 0;
    double weight = 1;

    std::size_t steps(Point a, Point b) const;
  };

  std::vector<AtLaunch> parameters_;
};

}  // namespace moetune
