#include "report/staleness.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "staleness/today.h"

namespace moetune {
namespace {

// Subjects of winners as numbers: one for all that differ in what they were made with alone.
struct Subjects {
  std::vector<std::size_t> of;  // by workload
  std::vector<std::size_t> hardware_of;
  std::vector<std::string> hardware;  // the keys' texts
  std::size_t count = 0;

  explicit Subjects(const std::vector<WorkloadReport>& workloads);
};

Subjects::Subjects(const std::vector<WorkloadReport>& workloads) {
  std::map<std::string, std::size_t> devices;
  std::map<std::tuple<std::string_view, std::size_t, Timing, std::string_view>, std::size_t> numbers;
  const HardwareKey* last = nullptr;
  for (const WorkloadReport& report : workloads) {
    const WorkloadKey& key = report.key();
    std::size_t device = hardware_of.empty() ? 0 : hardware_of.back();
    if (last == nullptr || !last->is_same(key.hardware)) {
      const auto [at, is_new] = devices.try_emplace(key.hardware.text(), hardware.size());
      if (is_new) hardware.push_back(at->first);
      device = at->second;
      last = &key.hardware;
    }
    hardware_of.push_back(device);
    of.push_back(numbers.try_emplace({key.kernel, device, key.timing, key.problem}, numbers.size()).first->second);
  }
  count = numbers.size();
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

bool is_older(const std::string& toolchain, const std::string& other) {
  return toolchain != other && version_numbers(toolchain) < version_numbers(other);
}

bool is_outside_space(const WorkloadReport& report, StoredSpaces& spaces) {
  const Space* const space = spaces.space(report.key());
  if (space == nullptr || report.stored.best_config.empty()) return false;
  if (spaces.has_read(report.key().kernel, report.stored.best_config)) return false;
  try {
    space->parse_config(report.stored.best_config);
    return false;
  } catch (const BadInput&) {
    return true;
  }
}

// Today's sources, toolchains and drivers, as far as winners and nights show them.
class Today {
 public:
  Today(const std::vector<WorkloadReport>& workloads, const Subjects& subjects, const Ledger& nights) {
    for (std::size_t i = 0; i < workloads.size(); ++i) {
      const WorkloadKey& key = workloads[i].key();
      see_toolchain(key.kernel, key.toolchain);
      see_driver(subjects.hardware[subjects.hardware_of[i]], key.hardware.driver,
                 seconds_of_date(workloads[i].stored_at));
    }
    nights.each([&](const std::string& kernel, const std::string& hardware, const LedgerEntry& entry) {
      see_toolchain(kernel, entry.made_with.toolchain);
      see_driver(hardware, entry.made_with.driver, entry.at);
    });
  }

  const std::string& toolchain(const std::string& kernel) { return newest_[kernel]; }
  const std::string& driver(const std::string& hardware) { return drivers_[hardware].second; }

 private:
  void see_toolchain(const std::string& kernel, const std::string& toolchain) {
    std::string& best = newest_[kernel];
    if (best.empty() || is_older(best, toolchain)) best = toolchain;
  }
  void see_driver(const std::string& hardware, const std::string& driver, std::int64_t at) {
    auto& [last, name] = drivers_[hardware];
    if (driver.empty() || (!name.empty() && at < last)) return;
    last = at;
    name = driver;
  }

  std::map<std::string, std::string> newest_;                            // by kernel
  std::map<std::string, std::pair<std::int64_t, std::string>> drivers_;  // by hardware, with when it was seen
};

// The versions that the winner was made with, or with which a night has since found it the best.
MadeWith made_with(const WorkloadReport& report, const std::optional<LedgerEntry>& night) {
  if (night) return night->made_with;
  return {report.key().source_digest, "", report.key().toolchain, report.recorded() ? "" : report.origin.driver,
          report.origin.judged};
}

std::optional<LedgerEntry> night_since(const WorkloadReport& report, const Ledger& nights) {
  std::optional<LedgerEntry> entry = nights.find(report.key());
  if (entry && (!entry->is_done() || entry->at < seconds_of_date(report.stored_at))) entry.reset();
  return entry;
}

// Without the judges', which take long.
std::vector<std::string> reasons(const WorkloadReport& report, const MadeWith& then, bool is_of_night, Today& today,
                                 const std::string& hardware, StoredSpaces& spaces, TodaysMakings& makings) {
  const WorkloadKey& key = report.key();
  std::vector<std::string> stale;
  if (!spaces.known_kernel(key.kernel, then.sources).is_current) stale.emplace_back("the templates changed since");
  if (is_of_night && !then.space.empty() && then.space != makings.of(key).space)
    stale.emplace_back("the space changed since");
  else if (!is_of_night && is_outside_space(report, spaces))
    stale.emplace_back("today's space does not have its configuration");
  const std::string& newest = today.toolchain(key.kernel);
  if (is_older(then.toolchain, newest)) stale.push_back("compiled with " + then.toolchain + ", others with " + newest);
  const std::string& driver = today.driver(hardware);
  if (!then.driver.empty() && !driver.empty() && then.driver != driver)
    stale.push_back("tuned with driver " + then.driver + ", the last seen is " + driver);
  return stale;
}

// A workload with the digest of what judged it.
struct Judged {
  WorkloadReport* report;
  std::string then;
};

void find_judged_otherwise(const std::vector<Judged>& members, std::size_t most, const TodaysMakings& makings) {
  const auto has_changed = [&](const Judged& one) {
    return one.then != makings.judged(one.report->key(), one.report->stored.known);
  };
  if (most > 0 && members.size() > most &&
      std::ranges::none_of(evenly_spaced(members.size(), most), [&](std::size_t i) { return has_changed(members[i]); }))
    return;
  for (const Judged& one : members)
    if (has_changed(one)) one.report->stale.emplace_back("its inputs, checks or references changed since");
}

}  // namespace

void find_stale(std::vector<WorkloadReport>& workloads, StoredSpaces& spaces, const Ledger& nights,
                std::size_t most_judged) {
  const Subjects subjects(workloads);
  Today today(workloads, subjects, nights);
  TodaysMakings makings;
  std::map<std::string, std::vector<Judged>> judged;     // by kernel
  std::vector<std::int64_t> current(subjects.count, 0);  // the workload of today's templates with a winner; 0: none
  std::vector<const WorkloadReport*> served(subjects.count, nullptr);
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    const WorkloadReport& report = workloads[i];
    if (!report.stored.winner) continue;
    if (spaces.is_current(report.key())) current[subjects.of[i]] = report.stored.workload.id;
    const WorkloadReport*& latest = served[subjects.of[i]];
    if (latest == nullptr || latest->stored_at < report.stored_at) latest = &report;
  }
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    WorkloadReport& report = workloads[i];
    const WorkloadKey& key = report.key();
    if (spaces.space(key) == nullptr || report.stored.best_config.empty()) continue;  // another's kernel
    const std::int64_t other = current[subjects.of[i]];
    if (other != 0 && !spaces.is_current(key)) {
      report.stale.push_back("workload " + std::to_string(other) + " has today's templates");
      continue;
    }
    const WorkloadReport* const serves = served[subjects.of[i]];
    if (!report.stored.winner && report.stored.damage.empty() && serves != nullptr) {
      const std::optional<LedgerEntry> night = night_since(*serves, nights);
      if (night && night->made_with.sources == key.source_digest && night->made_with.toolchain == key.toolchain) {
        report.kept = serves->stored.workload.id;
        continue;
      }
    }
    const std::optional<LedgerEntry> night = night_since(report, nights);
    const MadeWith then = made_with(report, night);
    report.stale =
        reasons(report, then, night.has_value(), today, subjects.hardware[subjects.hardware_of[i]], spaces, makings);
    if (!then.judged.empty()) judged[key.kernel].push_back({&report, then.judged});
  }
  for (const auto& [kernel, members] : judged) find_judged_otherwise(members, most_judged, makings);
}

void find_earlier_winners(std::vector<WorkloadReport>& workloads) {
  const Subjects subjects(workloads);
  std::vector<std::vector<std::size_t>> same(subjects.count);
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    if (workloads[i].stored.winner) same[subjects.of[i]].push_back(i);
  }
  for (std::vector<std::size_t>& members : same) {
    std::ranges::sort(members,
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
