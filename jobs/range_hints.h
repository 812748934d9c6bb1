// Where to begin with a cubin at a cell that has not seen it: what served it elsewhere. Pure.
#pragma once

#include <string>
#include <vector>

#include "jobs/cell_meter.h"
#include "jobs/range_plan.h"
#include "jobs/range_state.h"

namespace moetune {

// For each cubin the configuration that served it best in the nearest cell that knows it. `cells` are those of `state`,
// in order.
std::vector<CellMeter::Hint> nearest_hints(const std::vector<std::string>& cubins, const PlannedCell& cell,
                                           const std::vector<PlannedCell>& cells, const RangeState& state);

}  // namespace moetune
