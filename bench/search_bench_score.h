// The figures that a comparison of strategies is judged by. Stateless.
#pragma once

#include <array>
#include <vector>

#include "bench/search_bench_runs.h"

namespace moetune::bench {

inline constexpr std::array<std::size_t, 4> kBudgets = {25, 50, 100, 200};

struct Score {
  std::array<double, kBudgets.size()> median{};    // of best time over optimum
  std::array<double, kBudgets.size()> mean{};      // of the same
  std::array<double, kBudgets.size()> within_5{};  // share of the runs
  double p90 = 0;                                  // of best time over optimum at the last budget
  double over_random = 0;                          // performance over time, see below
};

// The value below which a share `q` of `values` lies, interpolated between the nearest ranks.
double quantile(std::vector<double> values, double q);
double geometric_mean(const std::vector<double>& values);

// The best time that `draws` random configurations without replacement are expected to hold. Draws that fail
// count; where all fail, the slowest time stands.
double expected_random_best(const RecordedSpace& space, std::size_t draws);

// The draws after which random search has come 95% of the way from the median time to the optimum, at most
// `budget`.
std::size_t cut_off(const RecordedSpace& space, std::size_t budget);

// `over_random` is the mean over fifty equally spaced trials up to the cut-off of (B - F) / (B - optimum),
// with B as expected_random_best and F the mean over the seeds of the best time: 1 is the optimum at once, 0
// is random search (Willemsen, Schoonhoven, Filipovic, Torring, van Nieuwpoort, van Werkhoven 2024).
Score score(const Runs& runs, const RecordedSpace& space);

}  // namespace moetune::bench
