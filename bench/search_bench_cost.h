// Times a strategy's own computation, in made-up spaces as large as real ones get.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace moetune::bench {

// Two hundred trials in spaces of 20,000 and of 5 million legal configurations, on one thread, for each
// strategy. Prints a table; returns the same.
nlohmann::json print_costs(const std::vector<std::string>& strategies);

}  // namespace moetune::bench
