#include "search/strategies/trial_log.h"

#include <algorithm>

namespace moetune {

std::vector<Observation> TrialLog::fastest(std::size_t count) const {
  std::vector<Observation> sorted;
  for (const Observation& trial : trials_) {
    if (has_usable_time(trial)) sorted.push_back(trial);
  }
  std::ranges::stable_sort(sorted, [](const Observation& a, const Observation& b) { return a.time_us < b.time_us; });
  if (sorted.size() > count) sorted.resize(count);
  return sorted;
}

}  // namespace moetune
