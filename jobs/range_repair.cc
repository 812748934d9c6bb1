// What a range search measures so that its table keeps the bound: the table's cubins wherever one was not tried, and
// more of their run-time values where the table loses most.
#include <algorithm>

#include "jobs/range_search.h"

namespace moetune {
namespace {

constexpr std::size_t kMostRounds = 4;  // over the grid, as the set of cubins may change by what they find

}  // namespace

// A cubin that a new cell has brought to the table may serve others as well, so that the table needs fewer.
void RangeSearch::complete_cover(double until) {
  bool any = true;
  for (std::size_t round = 0; any && round < kMostRounds; ++round) {
    const std::vector<std::string> cubins = solution_.cubins;
    any = false;
    for (std::size_t i = 0; i < state_.cells.size(); ++i) {
      if (!complete(i, cubins, until)) continue;
      any = true;
      report("cells", i + 1, plan_.cells().size());
    }
  }
}

// Short trials give up early on a cubin that starts badly. In a cell that loses more than the bound, the table's cubins
// are tried at length: each once a cell, the worst cell first.
void RangeSearch::repair(double until) {
  const auto is_among = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  for (bool any = true; any;) {
    any = false;
    const std::vector<std::size_t> past_bound = solution_.past_bound;
    for (const std::size_t index : past_bound) {
      if (time_is_up(until)) return;
      std::vector<std::string>& repaired = state_.cells[index].repaired;
      std::vector<std::string> cubins = solution_.cubins;
      std::erase_if(cubins, [&](const std::string& name) { return is_among(repaired, name); });
      if (cubins.empty() || !enter(index)) continue;
      repaired.insert(repaired.end(), cubins.begin(), cubins.end());
      look(index, cubins, meter_.patient());
      any = true;
      report("refining", plan_.cells().size(), plan_.cells().size());
    }
  }
}

}  // namespace moetune
