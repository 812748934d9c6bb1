// Drives a searcher over a space whose every outcome is already known, the way the tune loop drives it: a
// fixed number of configurations asked ahead, told in the order they were asked. Knows no device and no
// clock. Stateless: nothing survives from one run to the next.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "search/searcher.h"

namespace moetune {

struct SimulatedRun {
  std::vector<ConfigId> asked;  // in order: one trial each
  std::vector<double> best_us;  // after each trial: the best time so far, infinity until one succeeds
  bool repeated = false;        // the searcher asked something twice, or outside the space: a defect
};

// `outcomes` by ConfigId. Ends after `budget` trials, or when the searcher has no more to ask.
SimulatedRun simulate(Searcher& searcher, std::span<const Observation> outcomes, std::size_t budget,
                      std::size_t in_flight = 1);

}  // namespace moetune
