// Where the grid of a range is too coarse: between cells that would lose much with each other's choices. Pure.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "jobs/range_plan.h"
#include "jobs/range_solution.h"
#include "jobs/range_state.h"

namespace moetune {

// The neighbours of one kind for which each other's choices are worst, past the bound, and that are an octave apart or
// more. `cells` are those of `state` and `picks`, in order.
std::optional<std::pair<std::size_t, std::size_t>> worst_disagreement(const std::vector<PlannedCell>& cells,
                                                                      const RangeState& state,
                                                                      const std::vector<RangePick>& picks,
                                                                      double bound);

}  // namespace moetune
