// What other range tables of a kernel launch on the same GPU. Families of one kernel (pages of 16 and of 64, groups of
// 4 and of 8) have good cubins in common, and so have tables of one family before and after its templates changed. A
// range search tries these where it searches: 30 trials of its own would have to be lucky to meet them.
//
// A free function for the thread that owns the cache; deterministic in the cache's content.
#pragma once

#include <string>
#include <vector>

#include "cache/cache.h"
#include "cache/ranges.h"
#include "jobs/cell_meter.h"
#include "search/space.h"

namespace moetune {

inline constexpr std::size_t kMostRelatives = 8;

// Names of cubins, at most kMostRelatives: those of this family's older tables first, then those that serve most of
// their tables' cells. Tables of this kernel, GPU and timing count, whatever their sources, but for the one of `key`;
// what is no configuration of `space` is left out, and so are damaged tables.
std::vector<std::string> cubins_of_relatives(const Cache& cache, const RangeKey& key, const Space& space,
                                             const CellMeter& meter);

}  // namespace moetune
