#include "cache/merge.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "base/digest.h"
#include "cache/cache_file.h"
#include "cache/check.h"
#include "cache/schema/schema.h"
#include "cache/tallies.h"

namespace moetune {
namespace {

namespace merge_fs = std::filesystem;

// Merging reads every file twice within one snapshot; a fleet's caches have a few GB together.
constexpr std::uintmax_t kLargestFile = std::uintmax_t{16} << 30;

void require_mergeable(const merge_fs::path& into, const merge_fs::path& file) {
  std::error_code unknown;
  if (merge_fs::equivalent(into, file, unknown) && !unknown)
    throw BadInput(file.string() + " is the file to merge into; name another");
  const std::uintmax_t bytes = merge_fs::file_size(file, unknown);
  if (!unknown && bytes > kLargestFile)
    throw BadInput(file.string() +
                   " is larger than the 16 GiB that a merge reads; make it smaller with cache gc");
}

void require_sound(const Cache& cache, const RecordRules& rules) {
  const std::vector<CacheProblem> problems = check_cache(cache, rules);
  if (problems.empty()) return;
  const auto& [where, what] = problems.front();
  const std::string more =
      problems.size() == 1 ? "" : " (and " + std::to_string(problems.size() - 1) + " more problems)";
  throw BrokenEnvironment(cache.path().string() + ": " + where + ": " + what + more +
                          "; nothing was merged. Take the file from its maker again, or see cache check");
}

// Chooses between two trials of one configuration: sound before contended, with an interval before without, the lower
// end of the interval, measured before failed, the smaller digest. One statement a row, whose digest is the same in
// both files: it covers the workload by its key.
constexpr const char* kTakeTrial = MOETUNE_PUT_TRIAL("?12")
    " WHERE (excluded.contended, excluded.interval_high_us <= 0, excluded.interval_high_us, excluded.time_us <= 0,"
    " excluded.digest) < (t.contended, t.interval_high_us <= 0, t.interval_high_us, t.time_us <= 0, t.digest)"
    " OR t.digest <> " MOETUNE_TRIAL_DIGEST;

std::int64_t take_trials(const Database& from, std::int64_t source, const Database& into,
                         std::int64_t workload) {
  std::int64_t taken = 0;
  Query row = from.query(
      "SELECT " MOETUNE_TRIAL_COLUMNS ", digest FROM trials WHERE workload = ? ORDER BY id", source);
  while (row.step()) {
    into.run(kTakeTrial, workload, row.text(0), row.text(1), row.text(2), row.real(3), row.real(4),
             row.real(5), row.integer(6), row.text(7), row.text(8), row.integer(9), row.text(10));
    taken += into.changes();
  }
  return taken;
}

std::int64_t trials_in(const Database& database) {
  Query row = database.query("SELECT count(*) FROM trials");
  return row.step() ? row.integer(0) : 0;
}

// Makes the summaries of trials anew, which takes less than triggers for each of so many rows as `change` brings.
void sum_up_once(const Database& database, const std::function<void()>& change) {
  database.execute(kDropCacheSchema);
  tally_trials_once(database, change);
  make_cache_schema(database);
}

bool is_better(const WinnerTimes& a, const WinnerTimes& b) {
  return std::tie(a.contended, a.provisional, a.high_us, a.record) <
         std::tie(b.contended, b.provisional, b.high_us, b.record);
}

bool is_later(const WinnerTimes& a, const WinnerTimes& b) {
  return a.stored_at != b.stored_at ? a.stored_at > b.stored_at : is_better(a, b);
}

// The one that stays of all that the destination and the files have, in whatever order they come.
const WinnerTimes& choose(const std::vector<WinnerTimes>& all, MergeOrder order) {
  const WinnerTimes& best = *std::ranges::min_element(all, is_better);
  const WinnerTimes* chosen = &best;
  for (const WinnerTimes& one : all) {
    const bool is_as_sure = one.contended == best.contended && one.provisional == best.provisional;
    const bool may_be_as_good = is_as_sure && (order == MergeOrder::later || one.low_us <= best.high_us);
    if (may_be_as_good && is_later(one, *chosen)) chosen = &one;
  }
  return *chosen;
}

// A workload as one of the merged files holds it.
struct Held {
  const Cache* from;
  std::int64_t workload;  // there
};

// The winner that stays of those that the cache and the files have for one key.
void take_winner(Cache& cache, std::int64_t workload, const std::vector<Held>& candidates, MergeOrder order,
                 MergeResult& result) {
  std::optional<WinnerTimes> ours = cache.winners.times(workload);
  if (ours && !cache.winners.find_sound(workload)) ours.reset();
  std::vector<WinnerTimes> all;
  std::vector<const Held*> whose;
  for (const Held& one : candidates) {
    if (const auto theirs = one.from->winners.times(one.workload)) {
      all.push_back(*theirs);
      whose.push_back(&one);
    }
  }
  if (all.empty()) return;
  const std::size_t files = all.size();
  if (ours) all.push_back(*ours);
  const std::string record = choose(all, order).record;
  bool is_there = ours && ours->record == record;
  for (std::size_t i = 0; i < files; ++i) {
    if (all[i].record != record) {
      ++result.winners_kept;
    } else if (is_there) {
      ++result.winners_equal;
    } else {
      cache.winners.put(workload, whose[i]->from->winners.find(whose[i]->workload).value(), kReplacedMerge);
      ++(ours ? result.winners_replaced : result.winners_added);
      is_there = true;
    }
  }
}

// The order of tables in a merge: by merit, then by contents.
struct RangeRank {
  RangeMerit merit;
  std::string stored_at, digest;

  bool is_before(const RangeRank& other, MergeOrder order) const {
    const bool by_date = order == MergeOrder::later && merit.contended == other.merit.contended;
    if (by_date && stored_at != other.stored_at) return stored_at > other.stored_at;
    return std::tie(merit, digest) < std::tie(other.merit, other.digest);
  }
};

RangeRank rank_of(const FamilyRange& range, const RecordRules& rules) {
  DigestBuilder builder;
  builder.add(range.table).add(range.stored_at).add(range.provenance);
  for (const FamilyRange::Variant& variant : range.variants)
    builder.add(variant.config).add(variant.interface).add(variant.cubin_digest);
  return {rules.range_merit ? rules.range_merit(range.table) : RangeMerit{}, range.stored_at,
          builder.finish()};
}

std::int64_t take_ranges(Cache& cache, const Cache& from, const RecordRules& rules, MergeOrder order) {
  std::int64_t taken = 0;
  const std::vector<FamilyRange> ours = cache.ranges.all();
  for (const FamilyRange& theirs : from.ranges.all()) {
    const auto own = std::ranges::find(ours, theirs.key, &FamilyRange::key);
    if (own != ours.end() && !rank_of(theirs, rules).is_before(rank_of(*own, rules), order)) continue;
    RangeRecord record = from.ranges.record(theirs);
    record.progress = cache.ranges.progress(theirs.key);  // what a search here has measured stays measured
    cache.ranges.put(theirs.key, record, kReplacedMerge);
    ++taken;
  }
  return taken;
}

}  // namespace

MergeResult merge_caches(const std::filesystem::path& into, const std::vector<std::filesystem::path>& files,
                         const RecordRules& rules, MergeOrder order, const CacheOptions& options) {
  for (const auto& file : files) require_mergeable(into, file);
  std::vector<Cache> sources;
  std::vector<std::unique_ptr<ReadTransaction>> snapshots;  // what is checked is what is read
  for (const auto& file : files) {
    sources.push_back(Cache::open(file, Cache::Mode::read_only, options));
    snapshots.push_back(std::make_unique<ReadTransaction>(sources.back().file().database));
    require_sound(sources.back(), rules);
  }
  Cache cache = Cache::open(into, Cache::Mode::create, options);
  cache.use_rules(rules);
  const Database& database = cache.file().database;
  database.execute("PRAGMA cache_size = -262144");  // KiB: changed pages do not go to the log and back
  WriteTransaction transaction(database);
  MergeResult result{.files = static_cast<std::int64_t>(sources.size())};
  std::map<std::int64_t, std::vector<Held>> candidates;
  std::int64_t trials = 0;
  for (const Cache& source : sources) trials += trials_in(source.file().database);
  const auto take_workloads = [&] {
    for (const Cache& source : sources) {
      for (const Workload& workload : source.workloads.all()) {
        const std::int64_t id = cache.workloads.id(workload.key, workload.family);
        result.trials_taken += take_trials(source.file().database, workload.id, database, id);
        candidates[id].push_back({&source, workload.id});
      }
    }
  };
  trials > trials_in(database) ? sum_up_once(database, take_workloads) : take_workloads();
  for (const Cache& source : sources) result.ranges_taken += take_ranges(cache, source, rules, order);
  for (const auto& [workload, found] : candidates) take_winner(cache, workload, found, order, result);
  transaction.commit();
  return result;
}

}  // namespace moetune
