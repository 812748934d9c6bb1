// A recording as another GPU might have given it, where none was made on one: every value of a parameter, and
// every pair of values of neighbouring parameters, is by some factor better or worse there than here.
// Deterministic in the seed; stateless.
#pragma once

#include <cstdint>
#include <vector>

#include "search/searcher.h"

namespace moetune {

// `outcomes` by ConfigId; failures stay. The logarithm of each factor has the deviation `strength` over all
// of the space's parameters together, half of its variance from values and half from pairs.
std::vector<Observation> simulate_other_hardware(const LegalSpace& space, std::vector<Observation> outcomes,
                                                 std::uint64_t seed, double strength);

}  // namespace moetune
