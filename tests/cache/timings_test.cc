// How launches followed each other while they were timed is part of what a result is.
#include <doctest/doctest.h>

#include "cache/history.h"
#include "cache/ranges.h"
#include "keys/timing.h"
#include "tests/cache/support.h"

using moetune::Cache;
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

}  // namespace

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
