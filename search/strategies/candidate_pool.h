// The configurations that a model looks at before it picks one: all of a space where it is small; else a
// random sample, the neighbours of the fastest so far, and points a few steps from the fastest.
// Deterministic in the random state; stateless.
#pragma once

#include <vector>

#include "search/legal_space.h"
#include "search/random.h"
#include "search/strategies/trial_log.h"

namespace moetune {

inline constexpr std::size_t kWholeSpace = 10'000;  // up to this many, the pool is the space

// Ascending, each once; tried ones may be among them.
std::vector<ConfigId> make_candidate_pool(const LegalSpace& space, const std::vector<Observation>& fastest,
                                          Random& random);

}  // namespace moetune
