// How good the best configuration of a search is likely to be, from its trials alone, whichever strategy
// chose them: the Gaussian process of search/strategies/surrogate.h is fitted to the trials and asked what
// the untried configurations may hold, by sampling the most promising of them together. The raw probability
// is then mapped to what recorded searches showed it to be worth.
//
// Deterministic; stateless. Costs tens of milliseconds at 200 trials.
#pragma once

#include <span>

#include "search/searcher.h"

namespace moetune {

inline constexpr std::size_t kMoreTrials = 60;

struct Confidence {
  bool known = false;           // false where too few trials worked to say anything
  double within_5_percent = 0;  // probability that no configuration is more than 5% faster
  double expected_gain = 0;     // relative reduction of the best time that kMoreTrials more should buy
  bool at_floor = false;        // the best is within 5% of the least time that the device allows
};

// `trials` in the order they were told; repeats and ids outside the space are ignored. `floor_us` is the
// least time that the device allows (tuner/ceilings.h), 0 where it is unknown: nothing is expected to be
// faster, so that no gain exceeds what is left above it, and a best within 5% of it is within 5% of the true
// best. A floor that the best undercuts by more than the error of measuring is ignored.
Confidence assess(const LegalSpace& space, std::span<const Observation> trials, double floor_us = 0);

}  // namespace moetune
