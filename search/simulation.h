// Drives a searcher over a space whose every outcome is already known, the way the tune loop drives it: a
// fixed number of configurations asked ahead, told in the order they were asked. Knows no device and no
// clock. With facts it scouts ahead too, where there is room beside those asked. Stateless: nothing survives
// from one run to the next.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "search/searcher.h"

namespace moetune {

struct SimulatedRun {
  std::vector<ConfigId> asked;  // in order: one trial each
  std::vector<double> best_us;  // after each trial: the best time so far, infinity until one succeeds
  std::size_t pruned = 0;       // scouted and learnt, never asked
  bool repeated = false;        // the searcher asked something twice, or outside the space: a defect
};

// `outcomes` by ConfigId; `facts` too, or none. Ends after `budget` trials or where the searcher has no more
// to ask.
SimulatedRun simulate(Searcher& searcher, std::span<const Observation> outcomes, std::size_t budget,
                      std::size_t in_flight = 1, std::span<const Facts> facts = {});

}  // namespace moetune
