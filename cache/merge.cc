#include "cache/merge.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>
#include <unordered_map>

#include "base/digest.h"
#include "base/replace_file.h"
#include "cache/cache_file.h"
#include "cache/check.h"
#include "cache/cubins.h"
#include "cache/tallies.h"
#include "cache/winner_copier.h"

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
    throw BadInput(file.string() + " is larger than the 16 GiB that a merge reads; make it smaller with cache gc");
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
#define MOETUNE_TAKE_TRIAL                                                                                        \
  MOETUNE_PUT_TRIAL("?12")                                                                                        \
  " WHERE (excluded.contended, excluded.interval_high_us <= 0, excluded.interval_high_us, excluded.time_us <= 0," \
  " excluded.digest) < (t.contended, t.interval_high_us <= 0, t.interval_high_us, t.time_us <= 0, t.digest)"
constexpr const char* kTakeTrial = MOETUNE_TAKE_TRIAL " OR t.digest <> " MOETUNE_TRIAL_DIGEST;
constexpr const char* kTakeBesideSound = MOETUNE_TAKE_TRIAL;

// `workloads`: the ids at the destination by those of the source; `take`: the statement.
std::int64_t take_trials(const Database& from, const std::unordered_map<std::int64_t, std::int64_t>& workloads,
                         const Database& into, const char* take, TrialCounter& counter) {
  std::int64_t taken = 0;
  Query row = from.query("SELECT " MOETUNE_TRIAL_COLUMNS ", digest, workload FROM trials ORDER BY id");
  while (row.step()) {
    const std::int64_t workload = workloads.at(row.integer(11));
    if (into.insert(take, workload, row.view(0), row.view(1), row.view(2), row.real(3), row.real(4), row.real(5),
                    row.integer(6), row.view(7), row.view(8), row.integer(9), row.view(10)))
      counter.inserted(workload, row.view(1), row.view(10));
    taken += into.changes();
  }
  return taken;
}

std::int64_t trials_in(const Database& database) {
  Query row = database.query("SELECT count(*) FROM trials");
  return row.step() ? row.integer(0) : 0;
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

// The cache and the files that it takes.
struct Merge {
  Cache& cache;
  const std::vector<Cache>& sources;
  const Cache* copied = nullptr;  // the one of them that the cache began as a copy of
  const RecordRules& rules;
  MergeOrder order;
};

using Copiers = std::map<const Cache*, WinnerCopier>;

// The winner that stays of those that the cache and the files have for one key. One that was copied counts as the
// file's.
void take_winner(const Merge& merge, std::int64_t workload, const std::vector<Held>& candidates, Copiers& copiers,
                 MergeResult& result) {
  Cache& cache = merge.cache;
  std::optional<WinnerTimes> ours;
  if (merge.copied == nullptr) ours = cache.winners.times(workload);
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
  const std::string record = choose(all, merge.order).record;
  bool is_there = ours && ours->record == record;
  for (std::size_t i = 0; i < files; ++i) {
    if (all[i].record != record) {
      ++result.winners_kept;
    } else if (is_there) {
      ++result.winners_equal;
    } else {
      if (whose[i]->from != merge.copied) {
        if (merge.copied != nullptr) {
          cache.file().database.run("DELETE FROM winners WHERE workload = ?", workload);
          copiers.try_emplace(whose[i]->from, whose[i]->from->file(), cache.file())
              .first->second.copy(whose[i]->workload, workload);
        } else {
          cache.winners.put(workload, whose[i]->from->winners.find(whose[i]->workload).value(), kReplacedMerge);
        }
      }
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
  return {rules.range_merit ? rules.range_merit(range.table) : RangeMerit{}, range.stored_at, builder.finish()};
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

// Adds the workloads and trials of the files; returns whose they are by the workload's id here.
std::map<std::int64_t, std::vector<Held>> take_workloads(const Merge& merge, MergeResult& result) {
  const Database& database = merge.cache.file().database;
  std::map<std::int64_t, std::vector<Held>> candidates;
  TrialCounter counter(database);
  for (const Cache& source : merge.sources) {
    const Database& from = source.file().database;
    const bool is_copied = &source == merge.copied;
    std::unordered_map<std::int64_t, std::int64_t> ids;
    for (const Workload& workload : source.workloads.all()) {
      const std::int64_t id = is_copied ? workload.id : merge.cache.workloads.id(workload.key, workload.family);
      ids.emplace(workload.id, id);
      candidates[id].push_back({&source, workload.id});
    }
    const char* const take = merge.copied != nullptr ? kTakeBesideSound : kTakeTrial;
    result.trials_taken += is_copied ? trials_in(from) : take_trials(from, ids, database, take, counter);
  }
  counter.finish();
  return candidates;
}

// Leaves of a copied cache what a merge takes, but for range tables, which are taken one by one.
void keep_merged(const Database& database) {
  for (const char* const statement :
       {"DELETE FROM builds", "DELETE FROM calibrations", "DELETE FROM history", "DELETE FROM range_history",
        "DELETE FROM ranges", "DELETE FROM hardware WHERE id NOT IN (SELECT hardware FROM workloads)"})
    database.run(statement);
}

MergeResult take_all(const Merge& merge) {
  const Database& database = merge.cache.file().database;
  merge.cache.use_rules(merge.rules);
  database.execute("PRAGMA cache_size = -262144");  // KiB: changed pages do not go to the log and back
  WriteTransaction transaction(database);
  if (merge.copied != nullptr) keep_merged(database);
  MergeResult result{.files = static_cast<std::int64_t>(merge.sources.size())};
  const std::map<std::int64_t, std::vector<Held>> candidates = take_workloads(merge, result);
  for (const Cache& source : merge.sources)
    result.ranges_taken += take_ranges(merge.cache, source, merge.rules, merge.order);
  Copiers copiers;
  for (const auto& [workload, found] : candidates) take_winner(merge, workload, found, copiers, result);
  if (merge.copied != nullptr) database.run(kDropUnusedCubins);
  transaction.commit();
  return result;
}

// Whether little of the file would be copied in vain.
bool is_worth_copying(const Cache& cache) {
  if (cache.manifest() != nullptr) return false;
  const Database& database = cache.file().database;
  Query row = database.query("SELECT coalesce(sum(stored_bytes), 0) FROM builds");
  row.step();
  const std::int64_t page = database.integer_pragma("page_size");
  const std::int64_t vain = row.integer(0) + page * database.integer_pragma("freelist_count");
  return 4 * vain < page * database.integer_pragma("page_count");
}

// A database beside the file that it will become, gone with the object unless it has become that.
class NewFile {
 public:
  explicit NewFile(const merge_fs::path& becomes) : path_(becomes.string() + ".XXXXXX.tmp"), becomes_(becomes) {
    const int file = ::mkostemps(path_.data(), 4, O_CLOEXEC);
    if (file < 0)
      path_.clear();
    else
      ::close(file);
  }
  NewFile(const NewFile&) = delete;
  ~NewFile() {
    std::error_code gone;
    if (!path_.empty()) merge_fs::remove(path_, gone);
  }

  const std::string& path() const { return path_; }  // "" if it cannot be made

  // False if there is a file of that name by now.
  bool take_place() {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    return ::chmod(path_.c_str(), 0666 & ~mask) == 0 && ::link(path_.c_str(), becomes_.c_str()) == 0;
  }

 private:
  std::string path_;
  merge_fs::path becomes_;
};

// A merge into a file that is not there yet: it begins as a copy of the first of the files, which is checked, and
// needs no log, since nobody knows it. nullopt if there is no such copy, or another process made the file meanwhile.
std::optional<MergeResult> merge_into_new(const merge_fs::path& into, const std::vector<Cache>& sources,
                                          const RecordRules& rules, MergeOrder order, const CacheOptions& options) {
  const auto is_there = [&](const char* part) {
    return merge_fs::exists(merge_fs::symlink_status(into.string() + part));
  };
  if (is_there("") || is_there("-wal") || is_there("-journal") || !is_worth_copying(sources.front()))
    return std::nullopt;
  NewFile file(merge_fs::absolute(into));
  if (file.path().empty()) return std::nullopt;
  remove_left_overs(into);
  sources.front().file().database.copy_to(file.path());
  Database(file.path(), Database::Access::read_write, options.busy_timeout).run("DELETE FROM writing");
  MergeResult result;
  {
    Cache cache = Cache::open(file.path(), Cache::Mode::read_write, options);
    const bool has_log = cache.file().has_log;
    cache.file().database.set_journal("memory");
    result = take_all({cache, sources, &sources.front(), rules, order});
    if (has_log) cache.file().database.set_journal("wal");
  }
  if (!file.take_place()) return std::nullopt;
  return result;
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
  if (const auto result = merge_into_new(into, sources, rules, order, options)) return *result;
  Cache cache = Cache::open(into, Cache::Mode::create, options);
  return take_all({cache, sources, nullptr, rules, order});
}

}  // namespace moetune
