// What a warm start is worth: `auto` on each recorded space, cold and with the trials of searches on the
// other spaces of the same kernel.
#pragma once

#include <vector>

#include "bench/search_bench_runs.h"

namespace moetune::bench {

// Prints for each space how many trials it takes to come within 2% of the search's own final best.
void print_warm(const Plan& plan, const std::vector<RecordedSpace>& spaces);

}  // namespace moetune::bench
