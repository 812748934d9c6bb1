// When a new range table takes the place of the one that serves.
#include "jobs/range/store.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "kernels/registry.h"
#include "tests/runtime/fake_cache.h"
#include "tests/temporary_folder.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

RangeKey stored_key() {
  return {"decode_attention", "family", fake_device().key, "sources", "nvrtc 13.0", Timing::chained};
}

Problem problem_of(int batch, int context) {
  return find_kernel("decode_attention")
      .parse("q_heads=4,kv_heads=1,head_dim=64,page=16,batch=" + std::to_string(batch) +
             ",context=" + std::to_string(context));
}

constexpr int kContext = 64;

RangeTable table_of(std::size_t cells, const std::string& ranges, double time_us = 10) {
  RangeTable table{.ranges = ranges, .bound = 0.02, .kept = true};
  for (std::size_t i = 0; i < cells; ++i)
    table.cells.push_back(
        {problem_of(static_cast<int>(i) + 1, kContext).text(), plain_config(64), time_us, 12, time_us});
  return table;
}

std::vector<StoredLaunch> one_variant() { return {fake_launch(problem_of(2, kContext), plain_config(64))}; }

struct StoreCase {
  TemporaryFolder folder;
  Cache cache = Cache::open(folder.file("cache.db"), Cache::Mode::create);

  RangeStore store(const std::string& over, RangeStore::Choice choice = {}, int context = kContext) {
    return RangeStore(cache, stored_key(), parse_ranges(over), problem_of(1, context), choice);
  }
  void put(RangeStore& store, std::size_t cells, const std::string& over, RangeStore::Stage stage,
           double time_us = 10) {
    store.put({.ranges = over}, table_of(cells, over, time_us), {one_variant(), "{}"}, stage);
  }
  RangeTable table() { return RangeTable::parse(cache.ranges.all().at(0).table, "the table"); }
};

constexpr auto kUnderWay = RangeStore::Stage::under_way, kTimeIsUp = RangeStore::Stage::time_is_up,
               kComplete = RangeStore::Stage::complete;
const std::string kRange = "batch=1..8", kWider = "batch=1..64", kNarrow = "batch=1..4";

}  // namespace

TEST_CASE("the first table of a family serves from its first cell on") {
  StoreCase at;
  RangeStore store = at.store(kRange);
  at.put(store, 1, kRange, kUnderWay);
  CHECK(store.is_stored());
  CHECK_FALSE(store.is_guarded());
  CHECK(at.table().cells.size() == 1);
}

TEST_CASE("a finished table serves until a new search is complete, or has as many cells when its time is up") {
  StoreCase at;
  RangeStore first = at.store(kRange);
  at.put(first, 5, kRange, kComplete);
  RangeStore wider = at.store(kWider);
  at.put(wider, 9, kWider, kUnderWay);
  CHECK(at.table().ranges == kRange);
  CHECK_FALSE(wider.is_stored());
  CHECK(at.cache.ranges.progress(stored_key()).find(kWider) != std::string::npos);  // which is kept
  at.put(wider, 4, kWider, kTimeIsUp);
  CHECK(at.table().ranges == kRange);
  at.put(wider, 5, kWider, kTimeIsUp);
  CHECK(at.table().ranges == kWider);

  RangeStore fresh = at.store(kWider, {.fresh = true});
  at.put(fresh, 5, kWider, kUnderWay, 11);
  CHECK(at.table().cells[0].time_us == 10);
  at.put(fresh, 1, kWider, kComplete, 11);
  CHECK(at.table().cells[0].time_us == 11);
}

TEST_CASE("a search that goes on stores what it adds as it lands") {
  StoreCase at;
  RangeStore first = at.store(kRange);
  at.put(first, 3, kRange, kTimeIsUp);
  RangeStore second = at.store(kRange);
  at.put(second, 2, kRange, kUnderWay);
  CHECK(at.table().cells.size() == 3);
  at.put(second, 4, kRange, kUnderWay);
  CHECK(at.table().cells.size() == 4);
}

TEST_CASE("a narrower range does not replace a wider table by chance") {
  StoreCase at;
  RangeStore first = at.store(kRange);
  at.put(first, 5, kRange, kComplete);
  CHECK_THROWS_WITH_AS(at.store(kNarrow), doctest::Contains("batch=1..8"), BadField);
  RangeStore asked = at.store(kNarrow, {.fresh = true});
  at.put(asked, 2, kNarrow, kComplete);
  CHECK(at.table().ranges == kNarrow);
}

TEST_CASE("a range at another value of what it does not name does not replace a table by chance") {
  StoreCase at;
  RangeStore first = at.store(kRange);
  at.put(first, 5, kRange, kComplete);
  CHECK_THROWS_WITH_AS(at.store(kRange, {}, 2 * kContext), doctest::Contains("context=64"), BadField);
  CHECK_NOTHROW(at.store("batch=1..8,context=64..128", {}, 2 * kContext));
  CHECK_NOTHROW(at.store(kRange, {.fresh = true}, 2 * kContext));
}

TEST_CASE("a guarded search never replaces what it does not serve, though it is fresh") {
  StoreCase at;
  RangeStore first = at.store(kRange);
  at.put(first, 5, kRange, kComplete);
  CHECK_THROWS_AS(at.store(kNarrow, {.fresh = true, .guard = true}), BadField);
  CHECK_THROWS_AS(at.store(kRange, {.fresh = true, .guard = true}, 2 * kContext), BadField);
  CHECK_NOTHROW(at.store(kWider, {.guard = true}));
}

TEST_CASE("with a guard the older table serves until a complete one is no slower, over the default that both met") {
  StoreCase at;
  RangeStore first = at.store(kRange);
  at.put(first, 5, kRange, kComplete);
  const auto replaces = [&](double time_us) {
    RangeStore store = at.store(kRange, {.fresh = true, .guard = true});
    at.put(store, 6, kRange, kUnderWay, time_us);
    CHECK(at.table().cells.size() == 5);
    CHECK(store.is_guarded());
    CHECK_FALSE(store.comparison());
    at.put(store, 6, kRange, kComplete, time_us);
    REQUIRE(store.comparison());
    CHECK(store.comparison()->cells == 5);
    CHECK(store.comparison()->ratio == doctest::Approx(time_us / 10));
    CHECK(store.comparison()->replaced == (at.table().cells.size() == 6));
    return store.comparison()->replaced;
  };
  CHECK_FALSE(replaces(10.1));
  CHECK(replaces(10.04));  // noise
}

TEST_CASE("a contended table need not be beaten, and replaces none that has to be") {
  StoreCase at;
  RangeTable contended = table_of(5, kRange, 9);
  contended.contended = true;
  RangeStore first = at.store(kRange);
  first.put({.ranges = kRange}, contended, {one_variant(), "{}"}, kComplete);
  RangeStore second = at.store(kRange, {.fresh = true, .guard = true});
  CHECK_FALSE(second.is_guarded());
  at.put(second, 5, kRange, kComplete);
  RangeStore third = at.store(kRange, {.fresh = true, .guard = true});
  CHECK(third.is_guarded());
  third.put({.ranges = kRange}, contended, {one_variant(), "{}"}, kComplete);
  REQUIRE(third.comparison());
  CHECK_FALSE(third.comparison()->replaced);
  CHECK_FALSE(at.table().contended);
}

TEST_CASE("a table of another timing need not be beaten") {
  StoreCase at;
  RangeStore first = at.store(kRange);
  at.put(first, 5, kRange, kComplete);
  RangeKey alone = stored_key();
  alone.timing = Timing::alone;
  const RangeStore other(at.cache, alone, parse_ranges(kRange), problem_of(1, kContext),
                         {.fresh = true, .guard = true});
  CHECK_FALSE(other.is_guarded());
}

TEST_CASE("tables are compared where they met the same default, and clocks have no say") {
  RangeTable old = table_of(4, kRange), fresh = table_of(4, kRange, 20);
  for (RangeCell& cell : fresh.cells) cell.default_us = 24;
  CHECK(RangeComparison::of(fresh, old).ratio == doctest::Approx(1));
  CHECK(RangeComparison::of(fresh, old).cells == 4);
  CHECK(RangeComparison::of(fresh, old).replaced);
  fresh.cells[0].time_us = 30;
  CHECK_FALSE(RangeComparison::of(fresh, old).replaced);
  old.cells[0].default_config = plain_config(16);  // of another space
  CHECK(RangeComparison::of(fresh, old).cells == 3);
  CHECK(RangeComparison::of(fresh, old).replaced);
  for (RangeCell& cell : old.cells) cell.default_us = 0;
  CHECK(RangeComparison::of(fresh, old).cells == 0);
  CHECK(RangeComparison::of(fresh, old).replaced);
}
