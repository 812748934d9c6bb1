// Winners that others replaced: kept, listed, gone back to, bounded, and never handed out.
#include <doctest/doctest.h>

#include <limits>
#include <tuple>

#include "cache/check.h"
#include "cache/gc.h"
#include "cache/merge.h"
#include "cache/pack.h"
#include "cache/winners.h"
#include "tests/cache/support.h"

using moetune::Cache;
using moetune::Generation;
using namespace cache_test;

namespace {

moetune::WinnerRecord generation_winner(int number, double time_us, bool contended = false) {
  moetune::WinnerRecord record = winner(number);
  record.cubin = random_bytes(300, static_cast<std::uint64_t>(number));
  record.default_launch = winner(0);
  record.default_launch.cubin = random_bytes(300, 0);
  record.time_us = time_us;
  record.contended = contended;
  return record;
}

Cache open_new(const TempDir& dir, std::int64_t& id) {
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  id = cache.workloads.id(workload_key(), "head_dim=128");
  return cache;
}

std::string cubin_count(const TempDir& dir) { return raw_text(dir / "cache.db", "SELECT count(*) FROM cubins"); }

}  // namespace

TEST_CASE("a replaced winner is kept with the reason, latest first") {
  const TempDir dir;
  std::int64_t id = 0;
  Cache cache = open_new(dir, id);
  CHECK(cache.winners.history(id).empty());
  cache.winners.put(id, generation_winner(1, 10, true));
  cache.winners.put(id, generation_winner(2, 12));
  cache.winners.put(id, generation_winner(3, 11));
  cache.winners.put(id, generation_winner(3, 10));
  cache.winners.put(id, generation_winner(4, 9, true));  // never before a sound one
  cache.winners.put(id, generation_winner(5, 13));
  const std::vector<Generation> all = cache.winners.history(id);
  REQUIRE(all.size() == 3);  // tile=3 with another time is the same winner
  const std::pair<const char*, const char*> expected[] = {
      {"search", "tile=3"}, {"faster", "tile=2"}, {"contended", "tile=1"}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].number == static_cast<std::int64_t>(3 - i));
    CHECK(all[i].reason == expected[i].first);
    CHECK(all[i].config == expected[i].second);
    CHECK(all[i].provenance == winner(1).provenance);
    CHECK(all[i].replaced_at.size() == 20);
  }
  CHECK(all.back().contended);
  CHECK(cache.winners.find(id)->config == "tile=5");
  CHECK(cubin_count(dir) == "5");  // 1, 2, 3 and 5, and the default's
  CHECK(check_cache(cache).empty());
}

TEST_CASE("going back brings the winner as it was, and is itself recorded") {
  const TempDir dir;
  std::int64_t id = 0;
  Cache cache = open_new(dir, id);
  CHECK_THROWS_WITH_AS(cache.winners.roll_back(id), doctest::Contains("has no earlier winner"), moetune::BadInput);
  cache.winners.put(id, generation_winner(1, 10));
  const moetune::WinnerRecord first = cache.winners.find(id).value();
  const std::string digest = raw_text(dir / "cache.db", "SELECT digest FROM winners");
  cache.winners.put(id, generation_winner(2, 9));
  cache.winners.put(id, generation_winner(3, 8));
  CHECK_THROWS_WITH_AS(cache.winners.roll_back(id, 7), doctest::Contains("generation 7"), moetune::BadInput);

  CHECK(cache.winners.roll_back(id, 1).config == "tile=1");
  const moetune::WinnerRecord restored = cache.winners.find(id).value();
  CHECK(restored.config == first.config);
  CHECK(restored.plan == first.plan);
  CHECK(restored.cubin == first.cubin);
  CHECK(restored.default_launch.cubin == first.default_launch.cubin);
  CHECK(restored.stored_at == first.stored_at);
  CHECK(raw_text(dir / "cache.db", "SELECT digest FROM winners") == digest);
  CHECK(cache.winners.history(id).front().reason == "rollback");
  CHECK(cache.winners.history(id).front().config == "tile=3");
  CHECK(cache.winners.roll_back(id).config == "tile=3");  // undoes the first
  CHECK(cache.winners.find(id)->config == "tile=3");
  CHECK(check_cache(cache).empty());
}

TEST_CASE("going back passes what launches the same") {
  const TempDir dir;
  std::int64_t id = 0;
  Cache cache = open_new(dir, id);
  cache.winners.put(id, generation_winner(1, 10));
  cache.winners.put(id, generation_winner(2, 9));
  cache.winners.put(id, generation_winner(1, 10));  // generation 2 is tile=2, 1 is tile=1
  REQUIRE(cache.winners.history(id).size() == 2);
  cache.winners.roll_back(id, 1);  // the same again: generation 3 is tile=1
  CHECK(cache.winners.history(id).front().config == "tile=1");
  CHECK(cache.winners.roll_back(id).config == "tile=2");
}

TEST_CASE("a damaged winner or generation is neither kept nor gone back to") {
  const TempDir dir;
  std::int64_t id = 0;
  Cache cache = open_new(dir, id);
  cache.winners.put(id, generation_winner(1, 10));
  raw_sql(dir / "cache.db", "UPDATE winners SET time_us = 1");
  cache.winners.put(id, generation_winner(2, 9));
  CHECK(cache.winners.history(id).empty());
  cache.winners.put(id, generation_winner(3, 8));
  cache.winners.put(id, generation_winner(4, 7));
  raw_sql(dir / "cache.db", "UPDATE history SET time_us = 1 WHERE generation = 2");
  CHECK(cache.winners.history(id).size() == 1);
  REQUIRE(check_cache(cache).size() == 1);
  CHECK(check_cache(cache)[0].where == "generation 2 of workload 1 (decode_attention batch=64)");
  CHECK_THROWS_AS(cache.winners.roll_back(id, 2), moetune::BadInput);
  raw_sql(dir / "cache.db",
          "UPDATE cubins SET frame = x'00' WHERE id = (SELECT cubin FROM history"
          " WHERE generation = 1)");
  CHECK(says(broken([&] { cache.winners.roll_back(id, 1); }), "the cubins of generation 1"));
  CHECK(cache.winners.find(id)->config == "tile=4");
}

TEST_CASE("a generation whose times cannot be is a problem, however sound its digest is") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const auto& [time_us, low_us, high_us] :
       {std::tuple{10.0, 12.0, 11.0}, {-1.0, 9.0, 11.0}, {kInfinity, 9.0, 11.0}, {10.0, 9.0, kInfinity}}) {
    CAPTURE(time_us);
    const TempDir dir;
    std::int64_t id = 0;
    Cache cache = open_new(dir, id);
    moetune::WinnerRecord odd = generation_winner(1, time_us);
    odd.interval_low_us = low_us;
    odd.interval_high_us = high_us;
    cache.winners.put(id, odd);
    cache.winners.put(id, generation_winner(2, 9));
    REQUIRE(check_cache(cache).size() == 1);
    CHECK(check_cache(cache)[0].where == "generation 1 of workload 1 (decode_attention batch=64)");
    CHECK(says(check_cache(cache)[0].what, "its time is"));
  }
}

TEST_CASE("the history is bounded by gc, and its cubins go with it") {
  const TempDir dir;
  std::int64_t id = 0;
  Cache cache = open_new(dir, id);
  for (int i = 1; i <= 13; ++i) cache.winners.put(id, generation_winner(i, 100 - i));
  CHECK(cubin_count(dir) == "14");
  CHECK(collect_garbage(cache, {.dry_run = true}).generations == 4);
  CHECK(cache.winners.history(id).size() == 12);
  CHECK(collect_garbage(cache, {}).generations == 4);
  CHECK(cache.winners.history(id).size() == 8);
  CHECK(cache.winners.history(id).back().number == 5);
  CHECK(cubin_count(dir) == "10");
  CHECK(collect_garbage(cache, {.keep_generations = 0}).generations == 7);
  cache.winners.put(id, generation_winner(20, 1));
  CHECK(cache.winners.history(id).front().number == 13);
  CHECK(check_cache(cache).empty());
  cache.workloads.forget(id);
  CHECK(cubin_count(dir) == "0");
  CHECK(raw_text(dir / "cache.db", "SELECT count(*) FROM history") == "0");
}

TEST_CASE("what was replaced reaches neither servers nor packs nor other caches, unless it is gone back to") {
  const TempDir dir;
  std::int64_t id = 0;
  Cache cache = open_new(dir, id);
  cache.winners.put(id, generation_winner(1, 10));
  cache.winners.put(id, generation_winner(2, 9));
  for (const char* served : {"tile=2", "tile=1"}) {
    const auto found = cache.winners.of_family("decode_attention", "head_dim=128").sound;
    REQUIRE(found.size() == 1);
    CHECK(found[0].config == served);
    moetune::export_pack(cache, dir / "out.pack", {});
    CHECK(Cache::open(dir / "out.pack", Cache::Mode::read_only).winners.find(1)->config == served);
    CHECK(raw_text(dir / "out.pack", "SELECT count(*) FROM history") == "0");
    CHECK(raw_text(dir / "out.pack", "SELECT count(*) FROM cubins") == "2");
    fs::remove(dir / "other.db");
    moetune::merge_caches(dir / "other.db", {dir / "cache.db"}, {});
    const Cache other = Cache::open(dir / "other.db", Cache::Mode::read_only);
    CHECK(other.winners.find(1)->config == served);
    CHECK(other.winners.history(1).empty());
    cache.winners.roll_back(id, 1);
  }
}
