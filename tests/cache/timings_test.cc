// How launches followed each other while they were timed is part of what a result is.
#include <doctest/doctest.h>

#include "cache/check.h"
#include "cache/ranges.h"
#include "cache/winners.h"
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
    const std::int64_t id = cache.workloads.id(key_of(timing), "f");
    cache.trials.put(id, trial(number));
    cache.winners.put(id, winner(number++));
  }
  CHECK(cache.workloads.all().size() == 3);
  for (const Workload& workload : cache.workloads.all()) {
    CHECK(cache.workloads.find(workload.key) == workload.id);
    CHECK(cache.trials.of(workload.id).size() == 1);
  }
  CHECK(cache.winners.find(*cache.workloads.find(key_of(Timing::alone)))->config == winner(3).config);
  CHECK(check_cache(cache).empty());
  // A record cannot be made one of another timing.
  raw_sql(
      dir / "a.db",
      "DELETE FROM workloads WHERE timing = 'alone'; UPDATE workloads SET timing = 'alone' WHERE timing = 'chained'");
  CHECK(cache.winners.of_family("decode_attention", "f").sound.size() == 1);
  CHECK_FALSE(check_cache(cache).empty());
}

TEST_CASE("a winner keeps its times under all timings, in its history too, and they are part of its digest") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "a.db", Cache::Mode::create);
  const std::int64_t id = cache.workloads.id(key_of(Timing::chained));
  moetune::WinnerRecord first = winner(1);
  first.timings = R"({"alone": {}})";
  cache.winners.put(id, first);
  CHECK(cache.winners.find(id)->timings == first.timings);
  cache.winners.put(id, winner(2));
  CHECK(cache.winners.find(id)->timings.empty());
  cache.winners.roll_back(id);
  CHECK(cache.winners.find(id)->timings == first.timings);
  CHECK(check_cache(cache).empty());
  raw_sql(dir / "a.db", "UPDATE winners SET timings = ''");
  CHECK_THROWS_AS(cache.winners.find(id), moetune::DamagedWinner);
}

TEST_CASE("range tables of two timings stand side by side") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "a.db", Cache::Mode::create);
  moetune::RangeKey key{"router", "f", h200(), "s", "t"};
  cache.ranges.put(key, {.table = "overlapped", .progress = "one"});
  key.timing = Timing::chained;
  cache.ranges.put(key, {.table = "chained", .progress = "two"});
  CHECK(cache.ranges.all().size() == 2);
  CHECK(cache.ranges.progress(key) == "two");
  CHECK(check_cache(cache).empty());
}
