// Which cells are near a cell, and where to begin with a cubin there: with what served it elsewhere. Pure.
#pragma once

#include <string>
#include <vector>

#include "jobs/cell_meter.h"
#include "jobs/range_plan.h"
#include "jobs/range_solution.h"
#include "jobs/range_state.h"

namespace moetune {

// Indexes of cells, the nearest first; another kind of work counts as an octave.
std::vector<std::size_t> by_distance(const PlannedCell& from, const std::vector<PlannedCell>& cells);

// For each cubin what it was fastest with in the nearest cells that know it, `origins` of them, and what serves there
// if that is of this cubin; the cubin that serves nearest comes first. `cells` are those of `state` and `picks`, in
// order.
std::vector<CellMeter::Hint> nearest_hints(const std::vector<std::string>& cubins, const PlannedCell& cell,
                                           const std::vector<PlannedCell>& cells, const RangeState& state,
                                           const std::vector<RangePick>& picks, std::size_t origins);

}  // namespace moetune
