#include "tuner/history.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

constexpr double kOtherHardware = 2;  // as far as a fourfold batch
constexpr double kOtherName = 3;      // a dtype, a layout; or a dimension that the other lacks
constexpr double kOtherSources = 0.5;
constexpr double kOtherTiming = 0.1;  // mostly the same order

std::map<std::string, std::string> dimensions(const std::string& problem) {
  std::map<std::string, std::string> dims;
  for (auto& [name, value] : split_assignment(problem, "a stored problem")) dims.emplace(name, value);
  return dims;
}

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

double dimension_distance(const std::string& a, const std::string& b) {
  if (a == b) return 0;
  const std::optional<double> x = number_in(a), y = number_in(b);
  if (!x || !y || *x <= 0 || *y <= 0) return kOtherName;
  return std::abs(std::log2(*x / *y));
}

bool same_domains(const std::vector<Parameter>& left, const std::vector<Parameter>& right) {
  const auto same_value = [](const Value& a, const Value& b) { return a.text() == b.text(); };
  const auto same = [&](const Parameter& a, const Parameter& b) {
    return a.name == b.name &&
           std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(), same_value);
  };
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), same);
}

// The limits of the GPU at hand, with what a key tells of another one.
DeviceLimits limits_of(const HardwareKey& hardware, DeviceLimits limits) {
  if (hardware.sm_count > 0) limits.sm_count = hardware.sm_count;
  if (hardware.l2_bytes > 0) limits.l2_bytes = hardware.l2_bytes;
  if (hardware.compute_capability > 0) limits.compute_capability = hardware.compute_capability;
  return limits;
}

Assignment environment_of(const TransferContext& context, const WorkloadKey& key) {
  const Problem problem = context.kernel->parse(key.problem);
  return expression_environment(problem, limits_of(key.hardware, context.limits));
}

History history_of(const std::vector<TrialRecord>& records, const LegalSpace& space, std::optional<Transfer> transfer) {
  History history;
  for (const TrialRecord& record : records) {
    if (should_retry(record)) continue;
    std::optional<std::vector<Position>> point = space.point_of(record.config);
    const std::optional<TrialResult> result = from_record(record);
    if (point && transfer) point = (*transfer)(*point, space);
    if (point && result) history.trials.push_back({*std::move(point), result->outcome, result->measurement.median_us});
  }
  return history;
}

std::string left_out_text(const WorkloadKey& key, const BadInput& why) {
  return "The trials of " + key.kernel + " " + key.problem + " on " + key.hardware.name +
         " in the cache are left out: " + why.what();
}

}  // namespace

double workload_distance(const WorkloadKey& key, const WorkloadKey& other) {
  double distance = key.hardware.text() == other.hardware.text() ? 0 : kOtherHardware;
  if (key.source_digest != other.source_digest || key.toolchain != other.toolchain) distance += kOtherSources;
  if (key.timing != other.timing) distance += kOtherTiming;
  if (key.problem == other.problem) return distance;
  const auto ours = dimensions(key.problem), theirs = dimensions(other.problem);
  for (const auto& [name, value] : ours) {
    const auto match = theirs.find(name);
    distance += match == theirs.end() ? kOtherName : dimension_distance(value, match->second);
  }
  return distance;
}

History history_of_workload(const Cache& cache, std::int64_t workload, const LegalSpace& space, double distance) {
  History history = history_of(cache.trials.of(workload), space, std::nullopt);
  history.distance = distance;
  return history;
}

std::optional<Transfer> transfer_between(const TransferContext& context, const WorkloadKey& there,
                                         const WorkloadKey& here, const LegalSpace& space) {
  if (!same_domains(context.space->parameters(), space.parameters())) return std::nullopt;
  try {
    return context.space->transfer(environment_of(context, there), environment_of(context, here));
  } catch (const BadInput&) {
    return std::nullopt;
  }
}

std::vector<History> histories_for(const Cache& cache, const WorkloadKey& key, const LegalSpace& space,
                                   const TransferContext* context,
                                   const std::function<void(const std::string&)>& left_out) {
  const auto unless_unreadable = [&](const Workload& workload, const auto& use) {
    try {
      use();
    } catch (const BadInput& error) {
      if (left_out) left_out(left_out_text(workload.key, error));
    }
  };
  struct Neighbour {
    double distance;
    Workload workload;
  };
  std::vector<Neighbour> neighbours;
  const std::optional<std::int64_t> own = cache.workloads.find(key);
  for (const Workload& workload : cache.workloads.all()) {
    if (workload.key.kernel != key.kernel || (own && workload.id == *own)) continue;
    unless_unreadable(workload, [&] { neighbours.push_back({workload_distance(key, workload.key), workload}); });
  }
  std::ranges::sort(neighbours, [](const Neighbour& a, const Neighbour& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.workload.id < b.workload.id;
  });

  std::vector<History> histories;
  for (const auto& [distance, workload] : neighbours) {
    if (histories.size() == kMostHistories) break;
    unless_unreadable(workload, [&, distance = distance, &workload = workload] {
      std::optional<Transfer> transfer =
          context != nullptr ? transfer_between(*context, workload.key, key, space) : std::nullopt;
      History history = history_of(cache.trials.of(workload.id), space, std::move(transfer));
      history.distance = distance;
      if (!history.trials.empty()) histories.push_back(std::move(history));
    });
  }
  return histories;
}

}  // namespace moetune
