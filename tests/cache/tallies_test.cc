// Rows that another program adds, alters or deletes are noticed, and those that moetune itself deletes are not.
#include "cache/tallies.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "cache/check.h"
#include "cache/gc.h"
#include "cache/merge.h"
#include "cache/ranges.h"
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
  return std::ranges::any_of(
      problems, [&](const CacheProblem& one) { return one.where == where && says(one.what, what); });
}

}  // namespace

TEST_CASE("rows that another program deleted, added or altered are named by their table") {
  const TempDir dir;
  const fs::path file = filled(dir);
  REQUIRE(problems_of(file).empty());
  const std::pair<const char*, const char*> deleted[] = {
      {"trials", "DELETE FROM trials WHERE id IN (2, 3)"},
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
  CHECK(
      says(broken([&] { moetune::merge_caches(dir / "into.db", {file}, {}); }), "table trials: lacks 1 row"));
  Cache cache = Cache::open(file, Cache::Mode::read_write);
  collect_garbage(cache, {});
  CHECK(problems_of(file).empty());
}
