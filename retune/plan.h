// The work of a night: the workloads that are stale, most valuable first, with reasons and expected times. Reads the
// cache and the ledger and changes nothing; for the thread that owns the cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "jobs/session/stored_space.h"
#include "jobs/stored/key_finder.h"
#include "retune/shard.h"
#include "staleness/ledger.h"
#include "staleness/triage.h"
#include "workloads/workload_list.h"

namespace moetune {

struct PlanItem {
  TuningPoint point;
  std::string over;  // of a range (stale_ranges.h); "" for a single problem
  WorkloadKey key;   // of today
  MadeWith today;
  std::vector<StaleCause> causes;  // empty: nothing is to be done
  std::optional<Remedy> begun;     // of a search in which an earlier night was stopped
  double value = 0;                // weight × expected gain × staleness
  double expected_s = 0;
  std::uint64_t length_ms = 0;  // of a whole search, by the problem alone (shard.h); for comparing

  std::string why() const;  // "the driver has changed; it is older than asked"
};

struct LeftOut {
  TuningPoint point;
  std::string why;
};

struct NightPlan {
  std::vector<PlanItem> items;    // stale, most valuable first; of equal value the longest first
  std::vector<PlanItem> fresh;    // nothing is to be done
  std::vector<LeftOut> left_out;  // no key: this device has no such workload

  double expected_s() const;
};

struct PlanSettings {
  Shard shard;
  double max_age_s = 0;      // 0: age is no cause
  std::size_t budget = 200;  // trials of a whole search, for what to expect
};

// Among items of equal value the longest come first, so that devices which share a list end at about the same time.
void sort_items(NightPlan& plan);

// The timing under which a workload is retuned: that of the stored winner which a server would take, of whatever
// sources and compiler; overlapped if nothing is stored. A recording's is always that of `key`.
Timing served_timing(const Cache* cache, const WorkloadKey& key);

// The stored winner and what the ledger knows of it; nullopt if nothing is stored that is sound.
std::optional<Incumbent> find_incumbent(const Cache& cache, const Ledger& ledger, const WorkloadKey& key,
                                        StoredSpaces& spaces);

// `cache` may be null: nothing was ever tuned.
NightPlan make_plan(const std::vector<TuningPoint>& points, KeyFinder& keys, const Cache* cache, const Ledger& ledger,
                    const PlanSettings& settings, std::int64_t now);

}  // namespace moetune
