// One workload as a report shows it: what is stored (jobs/stored/stored_results.h) with what a reader asks next: how
// sure, faster than before, how old, whose, stale? Plain data, read by report.cc; for the thread that owns the cache.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "jobs/stored/stored_results.h"
#include "report/trial_series.h"
#include "tuner/timings.h"

namespace moetune {

// The winner that today's replaced: of the same workload, or of the same kernel, problem and hardware with other
// templates or another compiler.
struct EarlierWinner {
  double time_us = 0, low_us = 0, high_us = 0;
  std::string stored_at;
  std::string config;
  std::string reason;  // why it was replaced (cache/winners.h); "" for another workload's
};

// How a winner came about, as far as its record says.
struct Origin {
  std::string strategy, device, driver, version, judged;
  std::optional<std::int64_t> trials, seed;
};

struct WorkloadReport {
  StoredResult stored;
  Assignment dims;                 // of the problem; empty if it cannot be read
  std::string family;              // "" if unknown
  double low_us = 0, high_us = 0;  // 95% interval of the best, below six samples their range; 0 if unknown
  std::string stored_at;           // "" without a winner
  Origin origin;
  std::optional<EarlierWinner> before;
  std::vector<Generation> history;  // latest first
  std::vector<std::string> stale;   // reasons, each a phrase
  // A shape that was searched for a range table and has no winner of its own: FamilyRange::id of that table; 0: none.
  std::int64_t folded_into = 0;
  std::int64_t kept = 0;  // of a search that stored no winner: the workload whose winner won the duel with it
  std::vector<std::string> inherited_by;  // GPUs of the cache that are served by this winner for want of their own
  TrialSeries trials;

  const WorkloadKey& key() const { return stored.workload.key; }
  bool recorded() const { return key().hardware.origin != "gpu"; }
  // Over the earlier winner; 0 if there is none.
  double gain() const { return before && stored.best_us > 0 ? before->time_us / stored.best_us : 0; }
  // The winner's times by timing, read anew; empty if nobody asked for them.
  std::vector<TimingResult> timings() const {
    return stored.winner ? parse_timings(stored.winner->timings) : std::vector<TimingResult>();
  }
};

// "damaged", "contended", "provisional", "stale", "inherited", "lost duel", "no cubin": what a reader should
// know of it.
std::vector<std::string> workload_notes(const WorkloadReport& report);

// Reads the provenance of a stored winner. Values of the wrong type count as unknown.
Origin origin_of(const std::string& provenance);

// Without what needs the other workloads of the cache: `stale` and `before` of another workload; and without `trials`.
WorkloadReport read_workload(const Cache& cache, const Workload& workload, StoredSpaces& spaces,
                             WinnerParts parts = WinnerParts::without_cubins);

}  // namespace moetune
