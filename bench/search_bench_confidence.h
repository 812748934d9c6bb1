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

// The same bands where each space is judged by a calibration that was fitted to the others alone, and the one
// fitted to all, which search/calibration.cc holds. Assessments at a device's floor, which need none, are
// left out. Throws BadInput for fewer than two spaces.
nlohmann::json print_refit(const Plan& plan, const std::vector<RecordedSpace>& spaces);

}  // namespace moetune::bench
