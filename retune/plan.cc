#include "retune/plan.h"

#include <algorithm>
#include <map>

#include "base/digest.h"
#include "base/error.h"
#include "base/lists.h"
#include "base/resources.h"
#include "base/time_stamp.h"
#include "jobs/session/stored_space.h"
#include "jobs/stored/stored_results.h"
#include "kernels/registry.h"
#include "staleness/today.h"
#include "tuner/judgement.h"

namespace moetune {
namespace {

constexpr double kProbe_s = 4, kTrial_s = 0.06;  // where no night has said better
constexpr double kSearchesOfProbes = 0.2;        // of probes, how many end in a search

// The mean gain of tuning over the default, of the kernel's last winners in the cache.
class GainsElsewhere {
 public:
  explicit GainsElsewhere(const Cache* cache)
      : cache_(cache), workloads_(cache != nullptr ? cache->workloads.all() : std::vector<Workload>()) {}

  double of(const std::string& kernel) {
    const auto known = known_.find(kernel);
    if (known != known_.end()) return known->second;
    double sum = 0, count = 0;
    for (auto one = workloads_.rbegin(); one != workloads_.rend() && count < kMost; ++one) {
      if (one->key.kernel != kernel || is_recording(one->key)) continue;
      const std::optional<WinnerRecord> winner = cache_->winners.find_sound(one->id);
      if (!winner || winner->contended || winner->default_time_us <= 0 || winner->time_us <= 0) continue;
      sum += winner->default_time_us / winner->time_us - 1;
      count += 1;
    }
    return known_[kernel] = count > 0 ? std::max(0.05, sum / count) : 0.25;
  }

 private:
  static constexpr double kMost = 500;  // more would hardly change a mean

  const Cache* cache_;
  std::vector<Workload> workloads_;
  std::map<std::string, double> known_;
};

double expected_seconds(const PlanItem& item, const Ledger& ledger, std::size_t budget) {
  const double known_search = ledger.mean_seconds(item.point.kernel, true);
  const double known_probe = ledger.mean_seconds(item.point.kernel, false);
  const double search = known_search > 0 ? known_search : kProbe_s + kTrial_s * static_cast<double>(budget);
  if (!item.causes.empty() && item.causes.front() == StaleCause::missing) return search;
  return (known_probe > 0 ? known_probe : kProbe_s) + kSearchesOfProbes * search;
}

}  // namespace

void sort_items(NightPlan& plan) {
  std::ranges::stable_sort(plan.items, [](const PlanItem& a, const PlanItem& b) {
    return std::tie(a.value, a.length_ms) > std::tie(b.value, b.length_ms);
  });
}

std::string PlanItem::why() const {
  std::string text = joined(causes, "; ", stale_cause_words);
  if (begun) text += (text.empty() ? "" : "; ") + std::string("an earlier night was stopped in its search");
  return text;
}

double NightPlan::expected_s() const {
  double sum = 0;
  for (const PlanItem& item : items) sum += item.expected_s;
  return sum;
}

Timing served_timing(const Cache* cache, const WorkloadKey& key) {
  Timing served = Timing::overlapped;
  bool any = false;
  if (cache == nullptr || key.hardware.origin != "gpu") return key.timing;
  for (const Workload& workload : cache->workloads.of(key.kernel, key.problem, key.hardware)) {
    const WorkloadKey& other = workload.key;
    if (is_recording(other) || (any && other.timing >= served)) continue;
    try {
      if (!cache->winners.find(workload.id, WinnerParts::without_cubins)) continue;
    } catch (const DamagedWinner&) {  // its place is to be filled again
    }
    any = true;
    served = other.timing;
  }
  return served;
}

std::optional<Incumbent> find_incumbent(const Cache& cache, const Ledger& ledger, const WorkloadKey& key,
                                        StoredSpaces& spaces) {
  std::optional<StoredResult> stored;
  try {
    stored = find_winner(cache, key, spaces);
  } catch (const DamagedWinner&) {
    return std::nullopt;
  }
  if (!stored || !stored->winner || stored->is_provisional()) return std::nullopt;
  Incumbent incumbent{.contended = stored->winner->contended,
                      .examined_at = seconds_of_date(stored->winner->stored_at)};
  incumbent.made_with = {stored->workload.key.source_digest, "", stored->workload.key.toolchain,
                         source_of(stored->winner->provenance, "driver"),
                         source_of(stored->winner->provenance, "judged")};
  const std::optional<LedgerEntry> examined = ledger.find(key);
  // A winner that a night confirmed counts as made that night.
  if (examined && examined->is_done() && examined->at >= incumbent.examined_at &&
      examined->is_of(stored->winner->config)) {
    incumbent.made_with = examined->made_with;
    incumbent.examined_at = examined->at;
  } else if (const Space* const space = spaces.space(key)) {
    try {
      space->parse_config(stored->winner->config);
    } catch (const BadInput&) {
      incumbent.made_with.space = "another";  // it has values that today's space does not know
    }
  }
  return incumbent;
}

NightPlan make_plan(const std::vector<TuningPoint>& points, KeyFinder& keys, const Cache* cache, const Ledger& ledger,
                    const PlanSettings& settings, std::int64_t now) {
  NightPlan plan;
  const std::shared_ptr<const void> snapshot = cache != nullptr ? cache->snapshot() : nullptr;
  GainsElsewhere gains(cache);
  StoredSpaces spaces;
  TodaysMakings makings;
  for (const TuningPoint& point : points) {
    PlanItem item{.point = point};
    try {
      item.key = keys.find(point.kernel, point.problem);
      item.key.timing = served_timing(cache, item.key);
    } catch (const BadInput& error) {
      plan.left_out.push_back({point, error.what()});
      continue;
    }
    item.today = makings.of(item.key);
    item.today.judged = makings.judged(item.key);
    const std::optional<Incumbent> incumbent =
        cache != nullptr ? find_incumbent(*cache, ledger, item.key, spaces) : std::nullopt;
    item.causes = stale_causes(incumbent, item.today, now, settings.max_age_s);
    const std::optional<LedgerEntry> examined = ledger.find(item.key);
    if (examined && examined->made_with == item.today) item.begun = examined->begun();
    if (item.causes.empty() && !item.begun) {
      plan.fresh.push_back(std::move(item));
      continue;
    }
    item.value = point.weight * std::max(0.005, expected_gain(item.causes, gains.of(point.kernel))) *
                 staleness(item.causes, incumbent, now, settings.max_age_s);
    item.expected_s = expected_seconds(item, ledger, settings.budget);
    item.length_ms = search_length_ms(point, settings.budget);
    plan.items.push_back(std::move(item));
  }
  sort_items(plan);
  return plan;
}

}  // namespace moetune
