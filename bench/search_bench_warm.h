// Measures the worth of a warm start: `auto` on each recorded space, cold and with the trials of searches elsewhere.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "bench/search_bench_runs.h"

namespace moetune::bench {

// Prints for each space how many trials it takes to come within 2% of the search's own final best; returns
// the same. A warm start knows every other recording of the same kernel, or those alone that were made on another GPU.
// Spaces with nothing to know are named and left out. Throws BadInput where none is left.
nlohmann::json print_warm(const Plan& plan, const std::vector<RecordedSpace>& spaces, bool other_hardware);

}  // namespace moetune::bench
