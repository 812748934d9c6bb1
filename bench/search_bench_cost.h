// What a strategy costs by itself, in made-up spaces as large as real ones get. Prints a table.
#pragma once

#include <string>
#include <vector>

namespace moetune::bench {

// Two hundred trials in spaces of 20,000 and of 5 million legal configurations, on one thread.
void print_costs(const std::vector<std::string>& strategies);

}  // namespace moetune::bench
