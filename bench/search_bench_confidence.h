// What the stated confidence is worth on recorded spaces: searches by `auto`, assessed on their way.
#pragma once

#include <vector>

#include "bench/search_bench_runs.h"

namespace moetune::bench {

// Prints a row a band of stated probability (how many of the runs really were within 5%), and the stated gain
// of more trials beside the one that came. With `samples`, every assessment as a line of its own first.
void print_confidence(const Plan& plan, const std::vector<RecordedSpace>& spaces, bool samples);

}  // namespace moetune::bench
