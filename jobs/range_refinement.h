// Where the grid of a range is too coarse: between cells that would lose much with each other's cubins. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jobs/range_plan.h"
#include "jobs/range_state.h"

namespace moetune {

// The neighbours of one kind for which each other's cubins are worst, past the bound, and that are an octave apart or
// more. `cells` are those of `state`, in order; `cubin_of` gives the cubin of a configuration's text.
std::optional<std::pair<std::size_t, std::size_t>> worst_disagreement(
    const std::vector<PlannedCell>& cells, const RangeState& state, const RangeTable& table, double bound,
    const std::function<std::string(const std::string& config)>& cubin_of);

}  // namespace moetune
