// The trials of one workload for tables and charts: the whole of them in counts, and at most kMostShownTrials one by
// one, because a cache may hold any number. Plain data; pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cache/cache.h"

namespace moetune {

inline constexpr std::size_t kMostShownTrials = 2000;

struct ShownTrial {
  std::size_t number = 0;  // in the order of the search; the first is 1
  std::string config;
  std::string outcome;
  double time_us = 0, low_us = 0, high_us = 0;  // 0 if it has no time
  double device_s = 0;                          // spent on the GPU by all trials up to this one
  bool contended = false;
};

// The best so far, where it changed, and at the end.
struct BestSoFar {
  std::size_t number = 0;
  double device_s = 0;
  double time_us = 0;
};

struct TrialSeries {
  std::size_t total = 0;
  double device_s = 0, compile_s = 0;
  std::vector<ShownTrial> shown;  // all, or else the improvements, the fastest and others evenly from between
  std::vector<BestSoFar> best;
};

// `most` is how many to show. All seconds are 0 unless they are asked for.
TrialSeries series_of(const std::vector<TrialRecord>& trials, std::size_t most = kMostShownTrials,
                      bool with_seconds = true);

// So many of `count` positions, evenly, the first and the last with them.
std::vector<std::size_t> evenly_spaced(std::size_t count, std::size_t most);

}  // namespace moetune
