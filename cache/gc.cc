#include "cache/gc.h"

#include <algorithm>

#include "cache/cache_file.h"
#include "cache/check.h"
#include "cache/cubins.h"
#include "cache/tallies.h"

namespace moetune {
namespace {

struct Size {
  std::int64_t rows = 0, bytes = 0;
};

Size trials_of(const Database& database, std::int64_t workload) {
  Query row = database.query(
      "SELECT count(*), coalesce(sum(length(config) + length(message) + length(facts) + length(provenance)"
      " + length(digest)), 0) FROM trials WHERE workload = ?",
      workload);
  row.step();
  return {row.integer(0), row.integer(1)};
}

// Builds past the `limit` bytes that were used last.
Size unused_builds(const Database& database, std::int64_t limit) {
  Query row = database.query(
      "SELECT count(*), coalesce(sum(stored_bytes), 0) FROM"
      " (SELECT stored_bytes, sum(stored_bytes) OVER (ORDER BY used DESC) AS total FROM builds) WHERE total > ?",
      limit);
  row.step();
  return {row.integer(0), row.integer(1)};
}

std::int64_t free_bytes(const Database& database) {
  return database.integer_pragma("freelist_count") * database.integer_pragma("page_size");
}

// The size of the file without free pages and without a write-ahead log.
std::int64_t used_bytes(const Database& database) {
  return database.integer_pragma("page_count") * database.integer_pragma("page_size") - free_bytes(database);
}

// Statements are literals (cache/file/database.h).
#define MOETUNE_OLD_GENERATIONS(TABLE, OWNER) \
  " FROM " TABLE " AS y WHERE generation <= (SELECT max(generation) FROM " TABLE " WHERE " OWNER " = y." OWNER ") - ?"

struct Generations {
  const char *count, *drop;
};

constexpr Generations kOfWinners = {"SELECT count(*)" MOETUNE_OLD_GENERATIONS("history", "workload"),
                                    "DELETE" MOETUNE_OLD_GENERATIONS("history", "workload")};
constexpr Generations kOfRanges = {"SELECT count(*)" MOETUNE_OLD_GENERATIONS("range_history", "range"),
                                   "DELETE" MOETUNE_OLD_GENERATIONS("range_history", "range")};

// The latest stays even if none is to be kept: its number is the one that the next counts from.
std::int64_t drop_generations(const Database& database, const Generations& old, std::int64_t keep, bool dry_run) {
  keep = std::max<std::int64_t>(keep, 1);
  std::int64_t count = 0;
  {
    Query row = database.query(old.count, keep);
    row.step();
    count = row.integer(0);
  }
  if (dry_run || count == 0) return count;
  WriteTransaction transaction(database);
  database.run(old.drop, keep);
  database.run(kDropUnusedCubins);
  transaction.commit();
  return count;
}

// Gives the pages of removed rows back to the file system, also those in the write-ahead log.
void compact(const Database& database) {
  if (free_bytes(database) > 0) database.execute("VACUUM");
  database.execute("PRAGMA wal_checkpoint(TRUNCATE)");
}

}  // namespace

GcResult collect_garbage(Cache& cache, const GcRequest& request) {
  CacheFile& file = cache.file();
  const Database& database = file.database;
  GcResult result;
  result.file_bytes_before = summary_of(cache).file_bytes;
  for (const Workload& workload : cache.workloads.all()) {
    if (!request.is_orphaned || !request.is_orphaned(workload)) continue;
    const Size trials = trials_of(database, workload.id);
    if (trials.rows == 0) continue;
    if (!request.dry_run) {
      if (!file.searches.try_exclusive(workload.id)) {
        ++result.busy;
        continue;
      }
      file.searches.release_exclusive(workload.id);
      cache.trials.clear(workload.id);
    }
    ++result.trials_from;
    result.trials += trials.rows;
    result.trial_bytes += trials.bytes;
  }

  result.generations = drop_generations(database, kOfWinners, request.keep_generations, request.dry_run);
  result.generations += drop_generations(database, kOfRanges, request.keep_generations, request.dry_run);

  const auto drop_builds = [&](std::int64_t limit) {
    const Size unused = unused_builds(database, limit);
    if (!request.dry_run) drop_unused_builds(database, limit);
    result.builds += unused.rows;
    result.build_bytes += unused.bytes;
  };
  // The builds to keep if the file must lose `excess` bytes more.
  const auto builds_without = [&](std::int64_t excess) {
    const std::int64_t all = summary_of(cache).build_bytes - (request.dry_run ? result.build_bytes : 0);
    return std::max<std::int64_t>(0, all - excess);
  };
  const auto measure = [&] {
    if (!request.dry_run) compact(database);
    result.file_bytes_after =
        request.dry_run ? used_bytes(database) - result.build_bytes - result.trial_bytes : summary_of(cache).file_bytes;
    return request.max_file_bytes ? result.file_bytes_after - *request.max_file_bytes : 0;
  };

  drop_builds(request.keep_build_bytes);
  if (!request.dry_run) recount_tallies(database);  // what other programs took away is gone from now on
  for (std::int64_t excess = measure(); excess > 0 && builds_without(0) > 0; excess = measure()) {
    const std::int64_t keep = builds_without(excess);
    if (request.dry_run) result.builds = result.build_bytes = 0;  // counted again, from the first
    drop_builds(keep);
  }
  return result;
}

}  // namespace moetune
