// The part of Cache that takes in what other files hold.
#include "cache/merge.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "cache/cache_impl.h"
#include "cache/history.h"
#include "cache/ranges.h"

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
  const std::vector<CacheProblem> problems = cache.check(rules);
  if (problems.empty()) return;
  const auto& [where, what] = problems.front();
  const std::string more =
      problems.size() == 1 ? "" : " (and " + std::to_string(problems.size() - 1) + " more problems)";
  throw BrokenEnvironment(cache.path().string() + ": " + where + ": " + what + more +
                          "; nothing was merged. Take the file from its maker again, or see cache check");
}

// Chooses between two trials of one configuration: sound before contended, with an interval before without, the lower
// end of the interval, measured before failed, the smaller digest. One statement a row.
constexpr const char* kTakeTrial =
    "INSERT INTO trials AS t (workload, config, outcome, message, time_us, interval_low_us, interval_high_us,"
    " samples, facts, provenance, contended, digest) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
    " moetune_digest(" MOETUNE_IDENTITY("?1") ", ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11))"
    " ON CONFLICT (workload, config) DO UPDATE SET outcome = excluded.outcome, message = excluded.message,"
    " time_us = excluded.time_us, interval_low_us = excluded.interval_low_us,"
    " interval_high_us = excluded.interval_high_us, samples = excluded.samples, facts = excluded.facts,"
    " provenance = excluded.provenance, contended = excluded.contended, digest = excluded.digest"
    " WHERE (excluded.contended, excluded.interval_high_us <= 0, excluded.interval_high_us, excluded.time_us <= 0,"
    " excluded.digest) < (t.contended, t.interval_high_us <= 0, t.interval_high_us, t.time_us <= 0, t.digest)"
    " OR t.digest <> " MOETUNE_TRIAL_DIGEST;

std::int64_t take_trials(const Database& from, std::int64_t source, const Database& into,
                         std::int64_t workload) {
  std::int64_t taken = 0;
  Query row = from.query(
      "SELECT config, outcome, message, time_us, interval_low_us, interval_high_us, samples, facts, provenance,"
      " contended FROM trials WHERE workload = ? ORDER BY id",
      source);
  while (row.step()) {
    into.run(kTakeTrial, workload, row.text(0), row.text(1), row.text(2), row.real(3), row.real(4),
             row.real(5), row.integer(6), row.text(7), row.text(8), row.integer(9));
    taken += into.changes();
  }
  return taken;
}

bool is_better(const WinnerTimes& a, const WinnerTimes& b) {
  return std::tie(a.contended, a.high_us, a.record) < std::tie(b.contended, b.high_us, b.record);
}

bool is_later(const WinnerTimes& a, const WinnerTimes& b) {
  return a.stored_at != b.stored_at ? a.stored_at > b.stored_at : is_better(a, b);
}

// The one that stays of all that the destination and the files have, in whatever order they come.
const WinnerTimes& choose(const std::vector<WinnerTimes>& all, MergeOrder order) {
  const WinnerTimes& best = *std::ranges::min_element(all, is_better);
  const WinnerTimes* chosen = &best;
  for (const WinnerTimes& one : all) {
    const bool may_be_as_good =
        one.contended == best.contended && (order == MergeOrder::later || one.low_us <= best.high_us);
    if (may_be_as_good && is_later(one, *chosen)) chosen = &one;
  }
  return *chosen;
}

}  // namespace

void Cache::take_winner(std::int64_t workload, const std::vector<Candidate>& candidates, MergeOrder order,
                        MergeResult& result) {
  std::optional<WinnerTimes> ours = find_winner_times(impl_->database, workload);
  if (ours && !impl_->is_true(workload)) ours.reset();
  std::vector<WinnerTimes> all;
  std::vector<const Candidate*> whose;
  for (const Candidate& one : candidates) {
    if (const auto theirs = find_winner_times(one.from->impl_->database, one.workload)) {
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
      const WinnerRecord winner = whose[i]->from->winner(whose[i]->workload).value();
      if (!impl_->launches_same(workload, winner)) impl_->keep_winner(workload, kReplacedMerge);
      impl_->store_winner(workload, winner);
      ++(ours ? result.winners_replaced : result.winners_added);
      is_there = true;
    }
  }
}

MergeResult Cache::merge(const std::filesystem::path& into, const std::vector<std::filesystem::path>& files,
                         const RecordRules& rules, MergeOrder order, const CacheOptions& options) {
  for (const auto& file : files) require_mergeable(into, file);
  std::vector<Cache> sources;
  std::vector<std::unique_ptr<ReadTransaction>> snapshots;  // what is checked is what is read
  for (const auto& file : files) {
    sources.push_back(open(file, Mode::read_only, options));
    snapshots.push_back(std::make_unique<ReadTransaction>(sources.back().impl_->database));
    require_sound(sources.back(), rules);
  }
  Cache cache = open(into, Mode::create, options);
  cache.use_rules(rules);
  const Database& database = cache.impl_->database;
  WriteTransaction transaction(database);
  MergeResult result{.files = static_cast<std::int64_t>(sources.size())};
  std::map<std::int64_t, std::vector<Candidate>> candidates;
  for (const Cache& source : sources) {
    for (const Workload& workload : source.workloads()) {
      const std::int64_t id = cache.impl_->insert_workload(workload.key, workload.family);
      result.trials_taken += take_trials(source.impl_->database, workload.id, database, id);
      candidates[id].push_back({&source, workload.id});
    }
    result.ranges_taken += cache.take_ranges(source, rules, order);
  }
  for (const auto& [workload, found] : candidates) cache.take_winner(workload, found, order, result);
  database.run(kDropUnusedCubins);
  transaction.commit();
  return result;
}

}  // namespace moetune
