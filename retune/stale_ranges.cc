#include "retune/stale_ranges.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "cache/cache.h"
#include "jobs/range/served_ranges.h"
#include "jobs/stored/stored_results.h"
#include "kernels/registry.h"
#include "staleness/today.h"

namespace moetune {
namespace {

constexpr double kSecondsPerRange = 180;  // where no night has said better
// A table whose certificate saw more than this times its bound is worth another look.
constexpr double kTooMuch = 2;

std::string family_of(const TuningRange& range) {
  const Kernel& kernel = find_kernel(range.kernel);
  return kernel.specialization(kernel.parse(range.problem)).text();
}

bool is_lossy(const StandingRange& standing) { return standing.regret > kTooMuch * standing.bound; }

PlanItem item_of(const TuningRange& range, KeyFinder& keys) {
  PlanItem item{.point = {range.kernel, range.problem, range.weight}, .over = range.over};
  item.key = keys.find_family(range.kernel, range.problem);
  const Kernel& kernel = find_kernel(range.kernel);
  const Problem base = kernel.parse(range.problem);
  item.today = TodaysMakings().of(item.key);
  item.today.judged =
      judged_of_ranges(kernel, served_ranges(kernel, parse_ranges(range.over), base), base, item.key.hardware);
  item.key.problem = "over " + range.over + " of " + family_of(range);  // its own entry in the ledger
  if (keys.gpu() != nullptr) item.key.timing = Timing::chained;
  return item;
}

}  // namespace

std::optional<StandingRange> find_standing_range(const Cache& cache, const Ledger& ledger, const WorkloadKey& key,
                                                 const TuningRange& range) {
  const Kernel& kernel = find_kernel(range.kernel);
  const std::vector<DimensionRange> wanted =
      served_ranges(kernel, parse_ranges(range.over), kernel.parse(range.problem));
  for (const FamilyRange& stored : cache.ranges.of_family(range.kernel, family_of(range))) {
    if (stored.key.hardware.text() != key.hardware.text() || stored.key.timing != key.timing) continue;
    try {
      const RangeTable table = RangeTable::parse(stored.table, "a stored range table");
      if (table.cells.empty() || !covers(served_ranges(kernel, table), wanted)) continue;
      StandingRange standing{.over = table.ranges, .bound = table.bound};
      const Problem base = kernel.parse(table.cells[0].problem);
      standing.judged_today = judged_of_ranges(kernel, served_ranges(kernel, table), base, stored.key.hardware);
      standing.incumbent = {
          .made_with = {stored.key.source_digest, "", stored.key.toolchain, "", source_of(stored.provenance, "judged")},
          .contended = table.contended,
          .examined_at = seconds_of_date(stored.stored_at)};
      if (table.certificate.shapes > 0) standing.regret = table.certificate.p95;
      const std::optional<LedgerEntry> examined = ledger.find(key);
      if (examined && examined->is_done() && examined->at >= standing.incumbent.examined_at) {
        standing.incumbent.made_with = examined->made_with;
        standing.incumbent.examined_at = examined->at;
        // A night has searched on since, to the end: another one would find nothing new.
        standing.regret = 0;
      }
      return standing;
    } catch (const BadInput&) {  // of another version
    }
  }
  return std::nullopt;
}

void plan_ranges(NightPlan& plan, const std::vector<TuningRange>& ranges, KeyFinder& keys, const Cache* cache,
                 const Ledger& ledger, const PlanSettings& settings, std::int64_t now) {
  for (const TuningRange& range : ranges) {
    PlanItem item;
    try {
      item = item_of(range, keys);
    } catch (const BadInput& error) {
      plan.left_out.push_back({{range.kernel, range.problem, range.weight}, error.what()});
      continue;
    }
    const std::optional<StandingRange> standing =
        cache != nullptr ? find_standing_range(*cache, ledger, item.key, range) : std::nullopt;
    const std::optional<Incumbent> incumbent = standing ? std::optional(standing->incumbent) : std::nullopt;
    if (standing) {  // tuned anew it must serve as much
      item.over = standing->over;
      item.today.judged = standing->judged_today;
    }
    item.causes = stale_causes(incumbent, item.today, now, settings.max_age_s);
    if (standing && is_lossy(*standing)) item.causes.push_back(StaleCause::regret);
    const std::optional<LedgerEntry> examined = ledger.find(item.key);
    if (examined && examined->made_with == item.today) item.begun = examined->begun();
    if (item.causes.empty() && !item.begun) {
      plan.fresh.push_back(std::move(item));
      continue;
    }
    const double gain = std::max(expected_gain(item.causes, kMissingTableGain), standing ? standing->regret : 0);
    item.value = item.point.weight * std::max(0.005, gain) * staleness(item.causes, incumbent, now, settings.max_age_s);
    const double known = ledger.mean_seconds(range.kernel, true);
    item.expected_s = known > 0 ? known : kSecondsPerRange;
    item.length_ms = kSearchesOfARange * search_length_ms(item.point, settings.budget);
    plan.items.push_back(std::move(item));
  }
  sort_items(plan);
}

ReworkResult rework_range(const PlanItem& item, const SearchRequest& search, double time_s, const JobContext& context) {
  RangeRequest request{.target = search.target, .over = item.over};
  request.settings = search.settings;
  request.settings.policy.timing = Timing::chained;
  request.settings.time_budget_s = 0;
  // A table that is missing or loses too much is continued where it was left, and so is one that a night has begun.
  const auto goes_on = [](StaleCause cause) { return cause == StaleCause::missing || cause == StaleCause::regret; };
  request.settings.fresh = !item.begun && !std::all_of(item.causes.begin(), item.causes.end(), goes_on);
  request.time_s = time_s;
  request.guard = true;
  request.no_compile = search.no_compile;
  request.threads = search.threads;
  return range_verdict(search_range(request, context));
}

ReworkResult range_verdict(const RangeResult& found) {
  ReworkResult result{.unfinished = found.out_of_time, .trials = found.measured};
  const std::string loss = format("worst regret %.1f%%", 100 * found.table.worst_cell());
  if (found.interrupted) {
    result.verdict = ReworkVerdict::stopped;
    result.reason = "it was stopped; the next night goes on";
  } else if (found.table.cells.empty() && found.out_of_time) {
    result.verdict = ReworkVerdict::stopped;
    result.reason = "the time was up before there was a table; the next night goes on";
  } else if (found.table.cells.empty()) {
    result.verdict = ReworkVerdict::failed;
    result.reason = "nothing valid was found";
  } else if (found.table.contended) {
    result.verdict = ReworkVerdict::postponed;
    result.reason = "somebody else used the GPU";
  } else if (!found.comparison) {
    result.verdict = ReworkVerdict::tuned;
    result.reason = format("%zu cells, %zu cubins, ", found.table.cells.size(), found.cubins.size()) + loss;
  } else {
    const RangeComparison& comparison = *found.comparison;
    result.verdict = comparison.replaced ? ReworkVerdict::improved : ReworkVerdict::kept;
    result.reason = format("the new table takes %.3f of the old one's time over the default at %zu cells; ",
                           comparison.ratio, comparison.cells) +
                    loss;
  }
  if (result.unfinished && result.verdict != ReworkVerdict::stopped)
    result.reason += "; the time was up, and the next night goes on";
  return result;
}

}  // namespace moetune
