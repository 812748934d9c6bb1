// Fewer trials to fit a model to, where there are too many: the fastest half of them, and of the rest one in
// so many. Stateless.
#pragma once

#include <vector>

#include "search/searcher.h"

namespace moetune {

inline constexpr std::size_t kMostFitted = 128;  // trials that hyper-parameters are fitted to

// `count` trials in their order: the fastest half, and even strides of the rest; all if there are no more.
std::vector<Observation> thin(const std::vector<Observation>& trials, std::size_t count);

}  // namespace moetune
