// The values of a kernel's free dimensions that a range serves. A dimension that it does not name has the value of
// the problem.
//
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "keys/key.h"
#include "ranges/grid.h"
#include "ranges/range_table.h"

namespace moetune {

// `ranges` and, of each other free dimension, the value that `base` has.
std::vector<DimensionRange> served_ranges(const Kernel& kernel, std::vector<DimensionRange> ranges,
                                          const Problem& base);

// The same of a stored table; what it does not name is as its cells have it. Throws BadInput if one is no problem.
std::vector<DimensionRange> served_ranges(const Kernel& kernel, const RangeTable& table);

// The digest (tuner/judgement.h) that judges a table of these ranges, all free dimensions among them: of the problem
// at their lower ends in the family of `base`. "" for recorded hardware, and if there is no such problem.
std::string judged_of_ranges(const Kernel& kernel, const std::vector<DimensionRange>& served, const Problem& base,
                             const HardwareKey& hardware);

// Whether `wide` has all values of `narrow`. A dimension that either lacks does not count.
bool covers(const std::vector<DimensionRange>& wide, const std::vector<DimensionRange>& narrow);

}  // namespace moetune
