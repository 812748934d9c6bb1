// Fewer trials to fit a model to, where there are too many: the fastest half of them, and of the rest one in
// so many. Stateless.
#pragma once

#include <vector>

#include "search/searcher.h"

namespace moetune {

inline constexpr std::size_t kMostFitted = 128;  // trials that hyper-parameters are fitted to

// In the order that they came; all of them where they are no more than `count`.
std::vector<Observation> thin(const std::vector<Observation>& trials, std::size_t count);

}  // namespace moetune
