// A summary of one kernel's trials on one hardware: which parameters matter, how pairs of them interact, and the
// roofline. Times of different problems are compared as ratios to the fastest trial of their own problem.
//
// Plain data and pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/factors.h"
#include "report/importance.h"
#include "report/workload_report.h"

namespace moetune {

struct HeatCell {
  std::size_t trials = 0;
  double best = 0;  // ratio of its best trial to the fastest of the problem, geometric mean over problems; 0 if empty
  double mean = 0;  // the same of all its trials
};

// The trials by the levels of two factors; a row for each level of the first.
struct HeatMap {
  std::size_t first = 0, second = 0;
  std::vector<HeatCell> cells;
};

// Beside the parameters, the dimensions in which the problems differ are factors ("problem.batch"): a pair with one
// says how far the best value depends on the problem.
struct ParameterReport {
  std::vector<Factor> factors;
  std::size_t parameters = 0;  // so many of the factors are parameters; the others follow
  Importance importance;       // of log2 of the ratios, the mean of each problem taken off
  std::vector<HeatMap> maps;   // of the pairs that matter most
  std::size_t trials = 0;      // that the importance was computed from
};

// Fewer timed trials than this say nothing about parameters.
inline constexpr std::size_t kLeastTrials = 20;

// `workloads` are of one kernel and hardware. Without factors if there are too few trials.
ParameterReport parameters_of(const std::vector<const WorkloadReport*>& workloads);

}  // namespace moetune
