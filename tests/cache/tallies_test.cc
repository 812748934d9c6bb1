// Rows that another program adds, alters or deletes are noticed, and those that moetune itself deletes are not.
#include "cache/tallies.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "cache/check.h"
#include "cache/file/database.h"
#include "cache/gc.h"
#include "cache/merge.h"
#include "cache/ranges.h"
#include "cache/schema/schema.h"
#include "cache/winners.h"
#include "tests/cache/support.h"

using moetune::Cache;
using moetune::CacheProblem;
using namespace cache_test;

namespace {

fs::path filled(const TempDir& dir, const std::string& name = "a.db") {
  Cache cache = Cache::open(dir / name, Cache::Mode::create);
  for (int i = 0; i < 3; ++i) {
    const std::int64_t id = cache.workloads.id(workload_key("batch=" + std::to_string(i)), "f");
    for (int t = 0; t < 5; ++t) cache.trials.put(id, trial(t));
    cache.winners.put(id, winner(i));
    cache.winners.put(id, winner(i + 3));
  }
  cache.ranges.put({"decode_attention", "f", h200(), "s", "t"}, {"table", "progress", {winner(1)}, "", "{}"});
  cache.ranges.put({"decode_attention", "g", h200(), "s", "t"}, {"table", "progress", {winner(2)}, "", "{}"});
  cache.trials.put_calibration(h200(), "read_tb_s", 4.5);
  cache.builds.put("b", {"ok", "{}", "", random_bytes(100, 1)});
  return dir / name;
}

std::vector<CacheProblem> problems_of(const fs::path& file) {
  return check_cache(Cache::open(file, Cache::Mode::inspect));
}

bool names(const std::vector<CacheProblem>& problems, const std::string& where, const std::string& what) {
  return std::ranges::any_of(problems,
                             [&](const CacheProblem& one) { return one.where == where && says(one.what, what); });
}

}  // namespace

TEST_CASE("rows that another program deleted, added or altered are named by their table") {
  const TempDir dir;
  const fs::path file = filled(dir);
  REQUIRE(problems_of(file).empty());
  const std::pair<const char*, const char*> deleted[] = {{"trials", "DELETE FROM trials WHERE id IN (2, 3)"},
                                                         {"winners", "DELETE FROM winners WHERE workload < 3"},
                                                         {"history", "DELETE FROM history WHERE workload < 3"},
                                                         {"builds", "DELETE FROM builds"},
                                                         {"calibrations", "DELETE FROM calibrations"},
                                                         {"ranges", "PRAGMA foreign_keys = ON; DELETE FROM ranges"}};
  for (const auto& [table, statement] : deleted) {
    CAPTURE(table);
    const fs::path copy = dir / (std::string(table) + ".db");
    fs::copy_file(file, copy);
    raw_sql(copy, statement);
    const std::vector<CacheProblem> found = problems_of(copy);
    CHECK(found.size() == 1);
    CHECK(names(found, std::string("table ") + table, "that moetune stored: another program deleted them"));
  }
  fs::copy_file(file, dir / "moved.db");
  raw_sql(dir / "moved.db",
          "CREATE TEMP TABLE kept AS SELECT * FROM trials WHERE id = 2; DELETE FROM trials WHERE id = 1;"
          "UPDATE kept SET id = 99, workload = 2, config = 'x'; INSERT INTO trials SELECT * FROM kept");
  CHECK(names(problems_of(dir / "moved.db"), "table trials", "does not hold the rows that moetune stored"));
  raw_sql(file, "INSERT INTO calibrations SELECT hardware, 'more', value, digest FROM calibrations");
  CHECK(names(problems_of(file), "table calibrations", "has 1 row that moetune did not store"));
}

TEST_CASE("whatever moetune itself deletes or replaces leaves the tallies right") {
  const TempDir dir;
  const fs::path file = filled(dir), other = filled(dir, "b.db");
  {
    Cache cache = Cache::open(file, Cache::Mode::read_write);
    cache.trials.put(2, trial(3));  // replaces one
    cache.trials.clear(1);
    cache.workloads.forget(3);  // with all that refers to it
    cache.winners.roll_back(2);
    cache.ranges.put({"decode_attention", "f", h200(), "s", "t"}, {"other", "", {winner(4)}, "", "{}"});
    cache.ranges.roll_back(1);
    moetune::GcRequest request;
    request.keep_build_bytes = 0;
    request.keep_generations = 1;
    collect_garbage(cache, request);
  }
  CHECK(problems_of(file).empty());
  moetune::merge_caches(file, {other}, {});
  CHECK(problems_of(file).empty());
}

TEST_CASE("a merge does not take a file with rows missing, and gc counts anew what is there") {
  const TempDir dir;
  const fs::path file = filled(dir);
  raw_sql(file, "DELETE FROM trials WHERE id = 1");
  CHECK(says(broken([&] { moetune::merge_caches(dir / "into.db", {file}, {}); }), "table trials: lacks 1 row"));
  Cache cache = Cache::open(file, Cache::Mode::read_write);
  collect_garbage(cache, {});
  CHECK(problems_of(file).empty());
}

TEST_CASE("a merge of more trials than there are leaves what another program took away as visible as it was") {
  const TempDir dir;
  const fs::path into = dir / "into.db";
  {
    Cache cache = Cache::open(into, Cache::Mode::create);
    const std::int64_t id = cache.workloads.id(workload_key("batch=0"), "f");
    for (int t = 3; t < 7; ++t) cache.trials.put(id, trial(t));  // two of them are in the other file, too
  }
  raw_sql(into, "DELETE FROM trials WHERE id = 4");
  const moetune::MergeResult done = moetune::merge_caches(into, {filled(dir)}, {});
  CHECK(done.trials_taken == 15 - 2);
  const std::vector<CacheProblem> found = problems_of(into);
  REQUIRE(found.size() == 1);
  CHECK(found[0].where == "table trials");
  CHECK(says(found[0].what, "lacks 1 row that moetune stored"));
}

TEST_CASE("whatever commands come in whatever order, counts and tallies are those of the rows") {
  const TempDir dir(TempDir::Place::memory);
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto below = [&](int most) { return static_cast<int>(random() % most); };
    const fs::path file = filled(dir, std::to_string(seed) + ".db");
    const auto random_trial = [&] {
      moetune::TrialRecord one = trial(below(9));
      one.outcome = below(2) == 0 ? "ok" : "crashed";
      return one;
    };
    for (int step = 0; step < 8; ++step) {
      Cache cache = Cache::open(file, Cache::Mode::read_write);
      const std::int64_t id = cache.workloads.id(workload_key("batch=" + std::to_string(below(5))), "f");
      const int what = below(6);
      if (what == 0) {
        for (int i = 0; i < 4; ++i) cache.trials.put(id, random_trial());
      } else if (what == 1) {
        cache.winners.put(id, winner(below(6)));
      } else if (what == 2) {
        cache.trials.clear(id);
      } else if (what == 3) {
        cache.workloads.forget(id);
      } else if (what == 4) {
        collect_garbage(cache, {.is_orphaned = [&](const moetune::Workload& one) { return one.id == id; }});
      } else {
        const fs::path other = dir / "other.db";
        fs::remove(other);
        {
          Cache more = Cache::open(other, Cache::Mode::create);
          const std::int64_t there = more.workloads.id(workload_key("batch=" + std::to_string(below(5))), "f");
          for (int i = below(30); i >= 0; --i) more.trials.put(there, random_trial());
        }
        moetune::merge_caches(file, {other}, {});
      }
    }
    for (const CacheProblem& one : problems_of(file)) FAIL_CHECK(one.where, ": ", one.what);
  }
}

TEST_CASE("trials are counted by workload and outcome, whoever changes them") {
  const TempDir dir;
  const fs::path file = filled(dir);
  using Counts = std::map<std::string, std::size_t>;
  const auto counts = [&](std::int64_t workload) {
    return Cache::open(file, Cache::Mode::read_only).trials.counts(workload);
  };
  const Counts before = counts(1);
  std::size_t all = 0;
  for (const auto& [outcome, count] : before) all += count;
  CHECK(all == 5);
  {
    Cache cache = Cache::open(file, Cache::Mode::read_write);
    moetune::TrialRecord again = trial(0);
    again.outcome = "crashed";  // the same configuration: it replaces
    cache.trials.put(1, again);
    CHECK(cache.trials.counts(1).at("crashed") == 1);
    cache.trials.clear(2);
    CHECK(cache.trials.counts(2).empty());
    cache.workloads.forget(3);
    CHECK(cache.trials.counts(3).empty());
  }
  CHECK(problems_of(file).empty());
  raw_sql(file, "UPDATE trials SET outcome = 'timed_out' WHERE outcome = 'crashed'");
  CHECK(counts(1).at("timed_out") == 1);
  CHECK_FALSE(counts(1).contains("crashed"));
  raw_sql(file, "UPDATE trial_counts SET trials = trials + 1 WHERE outcome = 'timed_out'");
  CHECK(names(problems_of(file), "trial counts of workload 1", "are not those of its trials"));
}

TEST_CASE("a file without counts and indexes is read, and gets them from the first writer") {
  const TempDir dir;
  const fs::path file = filled(dir);
  const auto counts = Cache::open(file, Cache::Mode::read_only).trials.counts(1);
  raw_sql(file, moetune::kDropCacheSchema);
  CHECK(problems_of(file).empty());
  CHECK(Cache::open(file, Cache::Mode::read_only).trials.counts(1) == counts);
  const std::string made = "SELECT count(*) FROM sqlite_schema WHERE name = 'trial_counts' OR name LIKE '%_by_cubin'";
  CHECK(raw_text(file, made) == "0");
  Cache::open(file, Cache::Mode::read_write);
  CHECK(raw_text(file, made) == "5");
  CHECK(Cache::open(file, Cache::Mode::read_only).trials.counts(1) == counts);
  CHECK(problems_of(file).empty());
  raw_sql(file, "DROP INDEX winners_by_cubin");
  CHECK(names(problems_of(file), "schema", "the index winners_by_cubin is missing"));
}

TEST_CASE("what looks for a cubin's users or a problem's workloads scans no table") {
  const TempDir dir;
  const fs::path file = filled(dir);
  for (const char* statement :
       {"SELECT 1 FROM winners WHERE cubin = 1", "SELECT 1 FROM winners WHERE fallback_cubin = 1",
        "SELECT 1 FROM history WHERE cubin = 1", "SELECT 1 FROM history WHERE fallback_cubin = 1",
        "SELECT 1 FROM range_cubins WHERE cubin = 1", "SELECT 1 FROM range_history_cubins WHERE cubin = 1",
        "SELECT 1 FROM workloads w JOIN hardware h ON h.id = w.hardware WHERE w.kernel = 'k' AND w.problem = 'p'"
        " AND h.key = 'h'"}) {
    CAPTURE(statement);
    const moetune::Database database(file, moetune::Database::Access::read_only, std::chrono::seconds(5));
    const std::string explained = std::string("EXPLAIN QUERY PLAN ") + statement;
    moetune::Query step = database.query(explained.c_str());
    std::size_t steps = 0;
    for (; step.step(); ++steps) CHECK(step.text(3).starts_with("SEARCH"));
    CHECK(steps > 0);
  }
}

TEST_CASE("a snapshot shows the file as it was, and the next look what was written meanwhile") {
  const TempDir dir;
  const fs::path file = filled(dir);
  const Cache reader = Cache::open(file, Cache::Mode::read_only);
  {
    const std::shared_ptr<const void> snapshot = reader.snapshot();
    const std::size_t before = reader.workloads.all().size();
    Cache::open(file, Cache::Mode::read_write).workloads.id(workload_key("batch=9"), "f");
    CHECK(reader.workloads.all().size() == before);
    CHECK_FALSE(reader.workloads.find(workload_key("batch=9")));
  }
  CHECK(reader.workloads.find(workload_key("batch=9")));
  CHECK(reader.workloads.of("decode_attention", "batch=9", h200()).size() == 1);
  CHECK(reader.workloads.of("decode_attention", "batch=10", h200()).empty());
}
