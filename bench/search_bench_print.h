// The tables and the JSON of the search benchmark. Stateless.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "bench/search_bench_runs.h"

namespace moetune::bench {

void print_tables(const Plan& plan, const std::vector<RecordedSpace>& spaces, const std::vector<Runs>& all);
nlohmann::json to_json(const Plan& plan, const std::vector<RecordedSpace>& spaces, const std::vector<Runs>& all);

}  // namespace moetune::bench
