#include "bench/search_bench_score.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moetune::bench {
namespace {

constexpr std::size_t kPoints = 50;
constexpr double kCutOff = 0.95;

std::vector<double> sorted_times(const RecordedSpace& space) {
  std::vector<double> times;
  for (const Observation& outcome : space.outcomes) {
    if (has_usable_time(outcome)) times.push_back(outcome.time_us);
  }
  std::sort(times.begin(), times.end());
  return times;
}

double expected_best(const std::vector<double>& sorted, std::size_t rows, std::size_t draws) {
  const auto n = static_cast<double>(rows);
  const auto k = static_cast<double>(draws);
  double expected = 0;
  double none_yet = 1;  // probability that none of the best i was drawn
  for (std::size_t i = 0; i < sorted.size() && none_yet > 0; ++i) {
    const auto before = static_cast<double>(i);
    const double none = none_yet * std::max(0.0, n - k - before) / (n - before);
    expected += sorted[i] * (none_yet - none);
    none_yet = none;
  }
  return expected + none_yet * sorted.back();
}

double best_at(const std::vector<double>& curve, std::size_t trial) { return curve[std::min(trial, curve.size()) - 1]; }

double performance_over_time(const Runs& runs, const RecordedSpace& space) {
  const std::vector<double> sorted = sorted_times(space);
  const std::size_t last = cut_off(space, runs.best_us.front().size());
  double sum = 0;
  double points = 0;
  for (std::size_t p = 1; p <= kPoints; ++p) {
    const std::size_t trial = std::max<std::size_t>(1, last * p / kPoints);
    const double random = expected_best(sorted, space.outcomes.size(), trial);
    if (random <= space.optimum_us) continue;
    double mean = 0;
    for (const std::vector<double>& curve : runs.best_us)
      mean += std::min(best_at(curve, trial), sorted.back()) / static_cast<double>(runs.best_us.size());
    sum += (random - mean) / (random - space.optimum_us);
    ++points;
  }
  return points > 0 ? sum / points : 0;
}

}  // namespace

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  if (values[low] == values[high]) return values[low];
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

double expected_random_best(const RecordedSpace& space, std::size_t draws) {
  return expected_best(sorted_times(space), space.outcomes.size(), draws);
}

std::size_t cut_off(const RecordedSpace& space, std::size_t budget) {
  const std::vector<double> sorted = sorted_times(space);
  const double target = sorted.front() + (1 - kCutOff) * (quantile(sorted, 0.5) - sorted.front());
  std::size_t low = 1;
  std::size_t high = std::min(budget, space.outcomes.size());
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (expected_best(sorted, space.outcomes.size(), middle) <= target) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

Score score(const Runs& runs, const RecordedSpace& space) {
  Score result;
  for (std::size_t b = 0; b < kBudgets.size(); ++b) {
    std::vector<double> regrets;
    for (const std::vector<double>& curve : runs.best_us)
      regrets.push_back(best_at(curve, kBudgets[b]) / space.optimum_us);
    result.median[b] = quantile(regrets, 0.5);
    result.mean[b] = std::accumulate(regrets.begin(), regrets.end(), 0.0) / static_cast<double>(regrets.size());
    const auto near = std::count_if(regrets.begin(), regrets.end(), [](double r) { return r <= 1.05; });
    result.within_5[b] = static_cast<double>(near) / static_cast<double>(regrets.size());
    result.p90 = quantile(regrets, 0.9);
  }
  result.over_random = performance_over_time(runs, space);
  return result;
}

}  // namespace moetune::bench
