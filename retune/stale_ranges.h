// The ranges of a night: which tables are stale, what they are worth, and tuning one anew. The loss that a table's
// certificate saw is a cause of its own. As plan.h and rework.h for single problems.
//
// For the thread that owns the cache. rework_range() throws as search_range() does.
#pragma once

#include <cstdint>

#include "jobs/range/job.h"
#include "jobs/search_job.h"
#include "retune/plan.h"
#include "retune/rework.h"

namespace moetune {

// A table that serves all of a range, under today's key; nullopt if there is no sound one. `regret` is that of the
// certificate (p95), 0 if none was seen, or if a night has examined the table since.
struct StandingRange {
  Incumbent incumbent;
  std::string over;          // what it serves
  std::string judged_today;  // judged_of_ranges() of what it serves
  double bound = 0, regret = 0;
};
std::optional<StandingRange> find_standing_range(const Cache& cache, const Ledger& ledger, const WorkloadKey& key,
                                                 const TuningRange& range);

// Adds what is stale of `ranges`, most valuable first among all items. `cache` may be null.
void plan_ranges(NightPlan& plan, const std::vector<TuningRange>& ranges, KeyFinder& keys, const Cache* cache,
                 const Ledger& ledger, const PlanSettings& settings, std::int64_t now);

// The table that serves stays if the new one is slower (RangeComparison). `time_s` 0: no limit.
ReworkResult rework_range(const PlanItem& item, const SearchRequest& search, double time_s, const JobContext& context);
// The night's verdict on a range search that has ended.
ReworkResult range_verdict(const RangeResult& found);

}  // namespace moetune
