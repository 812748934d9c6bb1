#include "report/staleness.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"

namespace moetune {
namespace {

// What a winner is a winner of, whatever it was made with.
using TunedSubject = std::tuple<std::string, std::string, std::string, Timing>;

TunedSubject subject_of(const WorkloadReport& report) {
  const WorkloadKey& key = report.key();
  return {key.kernel, key.problem, key.hardware.text(), key.timing};
}

// "nvrtc 13.0.88" in parts, so that 13.10 comes after 13.9.
std::vector<long long> version_numbers(const std::string& toolchain) {
  std::vector<long long> numbers;
  long long number = -1;
  for (const char c : toolchain + " ") {
    if (c >= '0' && c <= '9') {
      number = std::min((std::max(number, 0LL)) * 10 + (c - '0'), 1'000'000'000LL);
    } else if (number >= 0) {
      numbers.push_back(number);
      number = -1;
    }
  }
  return numbers;
}

bool is_outside_space(const WorkloadReport& report, StoredSpaces& spaces) {
  const Space* const space = spaces.space(report.key());
  if (space == nullptr || report.stored.best_config.empty()) return false;
  try {
    space->parse_config(report.stored.best_config);
    return false;
  } catch (const BadInput&) {
    return true;
  }
}

}  // namespace

void find_stale(std::vector<WorkloadReport>& workloads, StoredSpaces& spaces) {
  std::map<std::string, std::string> newest;     // toolchain by kernel
  std::map<TunedSubject, std::int64_t> current;  // the workload of today's templates with a winner
  for (const WorkloadReport& report : workloads) {
    std::string& best = newest[report.key().kernel];
    const std::string& toolchain = report.key().toolchain;
    if (best.empty() || version_numbers(best) < version_numbers(toolchain)) best = toolchain;
    if (report.stored.winner && spaces.is_current(report.key()))
      current[subject_of(report)] = report.stored.workload.id;
  }
  for (WorkloadReport& report : workloads) {
    const WorkloadKey& key = report.key();
    if (spaces.space(key) == nullptr || report.stored.best_config.empty()) continue;  // another's kernel
    if (!spaces.is_current(key)) {
      const auto other = current.find(subject_of(report));
      report.stale.push_back(other == current.end()
                                 ? "the templates changed since"
                                 : "workload " + std::to_string(other->second) + " has today's templates");
    }
    if (is_outside_space(report, spaces))
      report.stale.push_back("today's space does not have its configuration");
    if (version_numbers(key.toolchain) < version_numbers(newest[key.kernel]))
      report.stale.push_back("compiled with " + key.toolchain + ", others with " + newest[key.kernel]);
    const std::string& driver = key.hardware.driver;
    if (!report.recorded() && !report.origin.driver.empty() && !driver.empty() &&
        report.origin.driver != driver)
      report.stale.push_back("tuned with driver " + report.origin.driver + ", the last seen is " + driver);
  }
}

void find_earlier_winners(std::vector<WorkloadReport>& workloads) {
  std::map<TunedSubject, std::vector<std::size_t>> same;
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    if (workloads[i].stored.winner) same[subject_of(workloads[i])].push_back(i);
  }
  for (auto& [subject, members] : same) {
    std::sort(members.begin(), members.end(),
              [&](std::size_t a, std::size_t b) { return workloads[a].stored_at < workloads[b].stored_at; });
    for (std::size_t m = 1; m < members.size(); ++m) {
      WorkloadReport& report = workloads[members[m]];
      const WorkloadReport& other = workloads[members[m - 1]];
      if (other.stored_at == report.stored_at) continue;
      if (report.before && report.before->stored_at >= other.stored_at) continue;
      report.before = {
          other.stored.best_us, other.low_us, other.high_us, other.stored_at, other.stored.best_config, ""};
    }
  }
}

}  // namespace moetune
