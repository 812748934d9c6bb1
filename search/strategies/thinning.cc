#include "search/strategies/thinning.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/lists.h"

namespace moetune {
namespace {

// The half of `count` that leads, then the rest in even strides, in the order they came.
std::vector<std::size_t> leaders_and_strides(const std::vector<std::size_t>& ranked, std::size_t count) {
  std::vector<std::size_t> chosen = ranked;
  if (ranked.size() > count) {
    const std::size_t leaders = count / 2;
    const std::size_t others = count - leaders;
    const std::size_t left = ranked.size() - leaders;
    chosen.resize(leaders);
    for (std::size_t i = 0; i < others; ++i) chosen.push_back(ranked[leaders + i * left / others]);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace

std::vector<Observation> thin(const std::vector<Observation>& trials, std::size_t count) {
  std::vector<std::size_t> ranked(trials.size());  // the fastest first, failures last
  std::iota(ranked.begin(), ranked.end(), std::size_t{0});
  const auto time = [&](std::size_t i) {
    return has_usable_time(trials[i]) ? trials[i].time_us : std::numeric_limits<double>::infinity();
  };
  std::stable_sort(ranked.begin(), ranked.end(), [&](std::size_t a, std::size_t b) { return time(a) < time(b); });
  return gathered(leaders_and_strides(ranked, count), [&](std::size_t i) { return trials[i]; });
}

}  // namespace moetune
