// Where the grid of a range is too coarse: between cells that would lose much with each other's choices. Pure.
#pragma once

#include <utility>
#include <vector>

#include "jobs/range_plan.h"
#include "jobs/range_solution.h"
#include "jobs/range_state.h"

namespace moetune {

// The neighbours of one kind that lose more than the bound with each other's choices, the worst first: a shape between
// two cells is served by the nearer one, so that a large loss is worth another cell where a small gap is left, a small
// one only in a large gap. `cells` are those of `state` and `picks`, in order.
std::vector<std::pair<std::size_t, std::size_t>> disagreements(const std::vector<PlannedCell>& cells,
                                                               const RangeState& state,
                                                               const std::vector<RangePick>& picks,
                                                               double bound);

}  // namespace moetune
