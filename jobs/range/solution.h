// The table that a range search's measurements give: the smallest set of cubins, and in each cell the fastest of them
// or the default. Pure.
#pragma once

#include <string>
#include <vector>

#include "jobs/range/state.h"
#include "ranges/range_table.h"

namespace moetune {

struct RangeSolution {
  std::vector<std::string> cubins;  // that the table may launch beside those of defaults
  RangeTable table;                 // of the measured cells; the certificate is of RangeState::shapes
  std::size_t left_to_default = 0;  // cells in which no cubin is faster than the default, which serves
};

// The pool, then defaults' cubins that did not join it: all to choose from.
std::vector<std::string> choosable_cubins(const RangeState& state);

// At most `variants` cubins, by the cells' duels. Cells that were measured beside somebody else's work are left out,
// unless all were.
RangeSolution solve(const RangeState& state, double bound, std::size_t variants);

}  // namespace moetune
