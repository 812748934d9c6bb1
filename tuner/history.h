// Experience for a new search out of the cache: trials of the same kernel on other problems, on other
// hardware, or with earlier sources. Reads the cache and keeps nothing.
#pragma once

#include <vector>

#include "cache/cache.h"
#include "search/searcher.h"

namespace moetune {

inline constexpr std::size_t kMostHistories = 6;

// The nearest workloads' trials whose values are of the domains of `space`, legal in it or not, nearest
// first, at most kMostHistories. The workload of `key` itself is left out. Deterministic in the cache's
// content.
std::vector<History> histories_for(const Cache& cache, const WorkloadKey& key, const LegalSpace& space);

// How far the experience of `other` is from `key`: 0 for the same problem and hardware with other sources;
// each dimension adds the binary logarithm of its ratio, other hardware two.
double workload_distance(const WorkloadKey& key, const WorkloadKey& other);

}  // namespace moetune
