#include "tuner/history.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "tuner/trial_record.h"

namespace moetune {
namespace {

constexpr double kOtherHardware = 2;  // as far as a fourfold batch
constexpr double kOtherName = 3;      // a dtype, a layout; or a dimension that the other lacks
constexpr double kOtherSources = 0.5;

std::map<std::string, std::string> dimensions(const std::string& problem) {
  std::map<std::string, std::string> dims;
  for (auto& [name, value] : split_assignment(problem, "a stored problem")) dims.emplace(name, value);
  return dims;
}

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

double dimension_distance(const std::string& a, const std::string& b) {
  if (a == b) return 0;
  const std::optional<double> x = number(a), y = number(b);
  if (!x || !y || *x <= 0 || *y <= 0) return kOtherName;
  return std::abs(std::log2(*x / *y));
}

History history_of(const std::vector<TrialRecord>& records, const LegalSpace& space) {
  History history;
  for (const TrialRecord& record : records) {
    if (may_end_otherwise(record)) continue;
    std::optional<std::vector<Position>> point = space.point_of(record.config);
    const std::optional<TrialResult> result = from_record(record);
    if (point && result)
      history.trials.push_back({*std::move(point), result->outcome, result->measurement.median_us});
  }
  return history;
}

}  // namespace

double workload_distance(const WorkloadKey& key, const WorkloadKey& other) {
  double distance = key.hardware.text() == other.hardware.text() ? 0 : kOtherHardware;
  if (key.source_digest != other.source_digest || key.toolchain != other.toolchain) distance += kOtherSources;
  if (key.problem == other.problem) return distance;
  const auto ours = dimensions(key.problem), theirs = dimensions(other.problem);
  for (const auto& [name, value] : ours) {
    const auto match = theirs.find(name);
    distance += match == theirs.end() ? kOtherName : dimension_distance(value, match->second);
  }
  return distance;
}

std::vector<History> histories_for(const Cache& cache, const WorkloadKey& key, const LegalSpace& space) {
  std::vector<std::pair<double, std::int64_t>> nearest;
  const std::optional<std::int64_t> own = cache.find_workload(key);
  for (const Workload& workload : cache.workloads()) {
    if (workload.key.kernel != key.kernel || (own && workload.id == *own)) continue;
    nearest.emplace_back(workload_distance(key, workload.key), workload.id);
  }
  std::sort(nearest.begin(), nearest.end());

  std::vector<History> histories;
  for (const auto& [distance, id] : nearest) {
    if (histories.size() == kMostHistories) break;
    History history = history_of(cache.trials(id), space);
    if (!history.trials.empty()) histories.push_back(std::move(history));
  }
  return histories;
}

}  // namespace moetune
