#include "report/staleness.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "staleness/today.h"

namespace moetune {
namespace {

// The identity of a winner, whatever it was made with.
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
  Today(const std::vector<WorkloadReport>& workloads, const Ledger& nights) {
    for (const WorkloadReport& report : workloads) {
      see_toolchain(report.key().kernel, report.key().toolchain);
      see_driver(report.key().hardware.text(), report.key().hardware.driver, seconds_of_date(report.stored_at));
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
    if (best.empty() || version_numbers(best) < version_numbers(toolchain)) best = toolchain;
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
                                 StoredSpaces& spaces, TodaysMakings& makings) {
  const WorkloadKey& key = report.key();
  const MadeWith now = makings.of(key);
  std::vector<std::string> stale;
  WorkloadKey examined = key;
  examined.source_digest = then.sources;
  if (!spaces.is_current(examined)) stale.emplace_back("the templates changed since");
  if (is_of_night && !then.space.empty() && then.space != now.space)
    stale.emplace_back("the space changed since");
  else if (!is_of_night && is_outside_space(report, spaces))
    stale.emplace_back("today's space does not have its configuration");
  const std::string& newest = today.toolchain(key.kernel);
  if (version_numbers(then.toolchain) < version_numbers(newest))
    stale.push_back("compiled with " + then.toolchain + ", others with " + newest);
  const std::string& driver = today.driver(key.hardware.text());
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
  Today today(workloads, nights);
  TodaysMakings makings;
  std::map<std::string, std::vector<Judged>> judged;  // by kernel
  std::map<TunedSubject, std::int64_t> current;       // the workload of today's templates with a winner
  std::map<TunedSubject, const WorkloadReport*> served;
  std::vector<TunedSubject> subjects;
  for (const WorkloadReport& report : workloads) {
    const TunedSubject& subject = subjects.emplace_back(subject_of(report));
    if (!report.stored.winner) continue;
    if (spaces.is_current(report.key())) current[subject] = report.stored.workload.id;
    const WorkloadReport*& latest = served[subject];
    if (latest == nullptr || latest->stored_at < report.stored_at) latest = &report;
  }
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    WorkloadReport& report = workloads[i];
    const WorkloadKey& key = report.key();
    if (spaces.space(key) == nullptr || report.stored.best_config.empty()) continue;  // another's kernel
    const auto other = current.find(subjects[i]);
    if (!spaces.is_current(key) && other != current.end()) {
      report.stale.push_back("workload " + std::to_string(other->second) + " has today's templates");
      continue;
    }
    const auto serves = served.find(subjects[i]);
    if (!report.stored.winner && report.stored.damage.empty() && serves != served.end()) {
      const std::optional<LedgerEntry> night = night_since(*serves->second, nights);
      if (night && night->made_with.sources == key.source_digest && night->made_with.toolchain == key.toolchain) {
        report.kept = serves->second->stored.workload.id;
        continue;
      }
    }
    const std::optional<LedgerEntry> night = night_since(report, nights);
    const MadeWith then = made_with(report, night);
    report.stale = reasons(report, then, night.has_value(), today, spaces, makings);
    if (!then.judged.empty()) judged[key.kernel].push_back({&report, then.judged});
  }
  for (const auto& [kernel, members] : judged) find_judged_otherwise(members, most_judged, makings);
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
