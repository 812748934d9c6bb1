// How launches followed each other while they were timed is part of what a result is; files from before are those of
// overlapping launches.
#include <doctest/doctest.h>

#include "base/digest.h"
#include "cache/file/blob.h"
#include "cache/history.h"
#include "cache/merge.h"
#include "cache/ranges.h"
#include "cache/schema/schema.h"
#include "keys/timing.h"
#include "tests/cache/support.h"

using moetune::Cache;
using moetune::Database;
using moetune::Timing;
using moetune::Workload;
using moetune::WorkloadKey;
using namespace cache_test;

namespace {

WorkloadKey key_of(Timing timing) {
  WorkloadKey key = workload_key();
  key.timing = timing;
  return key;
}

// A file of the fourth schema with a trial, a winner, an earlier winner and a range table, as that version wrote them.
void write_fourth(const fs::path& file) {
  const Database database(file, Database::Access::create, std::chrono::seconds(5));
  moetune::migrate(database, moetune::migrations().first(4));
  const moetune::HardwareKey gpu = h200();
  const auto cubin = random_bytes(300, 1);
  database.run(
      "INSERT INTO hardware VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,"
      " moetune_digest(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10))",
      gpu.text(), gpu.name, gpu.compute_capability, gpu.sm_count, gpu.l2_bytes, gpu.memory_bytes,
      gpu.sm_clock_khz, gpu.memory_clock_khz, gpu.origin, gpu.driver);
  const WorkloadKey key = workload_key();
  database.run(
      "INSERT INTO workloads (id, kernel, problem, hardware, source_digest, toolchain, family, digest)"
      " VALUES (7, ?1, ?2, 1, ?3, ?4, 'f', moetune_digest(?1, ?2, 1, ?3, ?4, 'f'))",
      key.kernel, key.problem, key.source_digest, key.toolchain);
  database.run("INSERT INTO cubins VALUES (1, ?, ?, 300)", moetune::digest(cubin), moetune::compress(cubin));
  database.execute(
      "CREATE TEMP VIEW identity AS SELECT moetune_digest(w.kernel, w.problem, h.key, w.source_digest, w.toolchain) i"
      " FROM main.workloads w JOIN main.hardware h ON h.id = w.hardware;"
      "INSERT INTO trials (workload, config, outcome, message, time_us, interval_low_us, interval_high_us, samples,"
      " facts, provenance, contended, digest) VALUES (7, 'tile=1', 'ok', '', 5.0, 4.0, 6.0, 7, '{}', '{}', 0,"
      " moetune_digest((SELECT i FROM identity), 'tile=1', 'ok', '', 5.0, 4.0, 6.0, 7, '{}', '{}', 0));"
      "INSERT INTO winners VALUES (7, 'tile=1', 5.0, 4.0, 6.0, 9.0, 0.5, '{}', 'i', 1, '', '', '', NULL, 0, '{}',"
      " 'then', moetune_digest((SELECT i FROM identity), 'tile=1', 5.0, 4.0, 6.0, 9.0, 0.5, '{}', 'i',"
      " (SELECT digest FROM cubins), '', '', '', NULL, 0, '{}', 'then'));"
      "INSERT INTO history VALUES (7, 1, 'faster', 'later', 'tile=2', 6.0, 5.0, 7.0, 9.0, 0.5, '{}', 'i', 1, '', '',"
      " '', NULL, 0, '{}', 'before', moetune_digest((SELECT i FROM identity), 1, 'faster', 'later', 'tile=2', 6.0,"
      " 5.0, 7.0, 9.0, 0.5, '{}', 'i', (SELECT digest FROM cubins), '', '', '', NULL, 0, '{}', 'before'));"
      "INSERT INTO ranges VALUES (3, 'decode_attention', 'f', 1, 's', 't', 'table', 'progress', 'then',"
      " moetune_digest('decode_attention', 'f', (SELECT key FROM hardware), 's', 't', 'table', 'progress', 'then',"
      " '0 tile=1 i ' || (SELECT digest FROM cubins)));"
      "INSERT INTO range_cubins VALUES (3, 0, 'tile=1', 'i', 1)");
}

void check_fourth(const Cache& cache) {
  REQUIRE(cache.workloads().size() == 1);
  const Workload workload = cache.workloads()[0];
  CHECK(workload.key.timing == Timing::overlapped);
  CHECK(cache.trials(workload.id).size() == 1);
  const auto winner = cache.winner(workload.id);
  REQUIRE(winner);
  CHECK(winner->timings.empty());
  CHECK(winner->cubin == random_bytes(300, 1));
  CHECK(cache.history(workload.id).size() == 1);
  CHECK(cache.family_winners("decode_attention", "f").size() == 1);
  REQUIRE(cache.ranges().size() == 1);
  CHECK(cache.ranges()[0].key.timing == Timing::overlapped);
  CHECK(cache.ranges()[0].variants.size() == 1);
  CHECK(cache.check().empty());
}

}  // namespace

TEST_CASE("a file of the fourth schema is read as it lies, and brought up with all its records") {
  const TempDir dir;
  write_fourth(dir / "a.db");
  check_fourth(Cache::open(dir / "a.db", Cache::Mode::read_only));
  CHECK(raw_text(dir / "a.db", "PRAGMA user_version") == "4");
  {
    Cache cache = Cache::open(dir / "a.db", Cache::Mode::read_write);
    check_fourth(cache);
    CHECK(cache.find_workload(workload_key()) == 7);
    CHECK(cache.roll_back(7).config == "tile=2");
    cache.forget(7);  // with what refers to it
  }
  CHECK(raw_text(dir / "a.db", "PRAGMA user_version") == "7");
  CHECK(raw_text(dir / "a.db", "SELECT (SELECT count(*) FROM trials) + (SELECT count(*) FROM winners)") ==
        "0");
}

TEST_CASE("merging takes a file of the fourth schema") {
  const TempDir dir;
  write_fourth(dir / "a.db");
  const moetune::MergeResult taken = Cache::merge(dir / "into.db", {dir / "a.db"}, {});
  CHECK(taken.winners_added == 1);
  CHECK(taken.trials_taken == 1);
  CHECK(taken.ranges_taken == 1);
}

TEST_CASE("one workload has trials and a winner for each timing") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "a.db", Cache::Mode::create);
  int number = 1;
  for (const Timing timing : moetune::kTimings) {
    const std::int64_t id = cache.workload(key_of(timing), "f");
    cache.put_trial(id, trial(number));
    cache.put_winner(id, winner(number++));
  }
  CHECK(cache.workloads().size() == 3);
  for (const Workload& workload : cache.workloads()) {
    CHECK(cache.find_workload(workload.key) == workload.id);
    CHECK(cache.trials(workload.id).size() == 1);
  }
  CHECK(cache.winner(*cache.find_workload(key_of(Timing::alone)))->config == winner(3).config);
  CHECK(cache.check().empty());
  // A record cannot be made one of another timing.
  raw_sql(
      dir / "a.db",
      "DELETE FROM workloads WHERE timing = 'alone'; UPDATE workloads SET timing = 'alone' WHERE timing = 'chained'");
  CHECK(cache.family_winners("decode_attention", "f").size() == 1);
  CHECK_FALSE(cache.check().empty());
}

TEST_CASE("a winner keeps its times under all timings, in its history too, and they are part of its digest") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "a.db", Cache::Mode::create);
  const std::int64_t id = cache.workload(key_of(Timing::chained));
  moetune::WinnerRecord first = winner(1);
  first.timings = R"({"alone": {}})";
  cache.put_winner(id, first);
  CHECK(cache.winner(id)->timings == first.timings);
  cache.put_winner(id, winner(2));
  CHECK(cache.winner(id)->timings.empty());
  cache.roll_back(id);
  CHECK(cache.winner(id)->timings == first.timings);
  CHECK(cache.check().empty());
  raw_sql(dir / "a.db", "UPDATE winners SET timings = ''");
  CHECK_THROWS_AS(cache.winner(id), moetune::DamagedWinner);
}

TEST_CASE("range tables of two timings stand side by side") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "a.db", Cache::Mode::create);
  moetune::RangeKey key{"router", "f", h200(), "s", "t"};
  cache.put_range(key, {.table = "overlapped", .progress = "one"});
  key.timing = Timing::chained;
  cache.put_range(key, {.table = "chained", .progress = "two"});
  CHECK(cache.ranges().size() == 2);
  CHECK(cache.range_progress(key) == "two");
  CHECK(cache.check().empty());
}
