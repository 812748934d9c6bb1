// Measures the worth of a warm start: `auto` on each recorded space, cold and with the trials of searches elsewhere.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "bench/search_bench_runs.h"

namespace moetune::bench {

// Selects the searches whose trials a warm start may know.
enum class HistorySource {
  anywhere,            // every other recording of the same kernel: other problems, other GPUs
  other_hardware,      // those alone that were made on another GPU
  synthetic_hardware,  // none of them, but the same problem on a GPU made up from its recording
};

// Prints for each space how many trials it takes to come within 2% of the search's own final best; returns
// the same. Spaces with nothing to know are named and left out. Throws BadInput where none is left.
nlohmann::json print_warm(const Plan& plan, const std::vector<RecordedSpace>& spaces, HistorySource source);

}  // namespace moetune::bench
