// Checks the stated confidence on recorded spaces, by assessing searches while they run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "bench/search_bench_runs.h"

namespace moetune::bench {

// Prints a row a band of stated probability (how many of the runs of `auto` really were within 5%), and the
// stated gain of more trials beside the one that came; for all spaces and for each. With `samples`, every
// assessment as a line of its own first. Returns the same.
nlohmann::json print_confidence(const Plan& plan, const std::vector<RecordedSpace>& spaces, bool samples);

}  // namespace moetune::bench
