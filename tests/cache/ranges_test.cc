// Range tables in a cache: kept with their cubins, replaced as a whole, refused when altered.
#include "cache/ranges.h"

#include "cache/check.h"
#include "cache/gc.h"
#include "cache/merge.h"
#include "cache/pack.h"
#include "tests/cache/support.h"

using namespace cache_test;
using moetune::Cache;
using moetune::RangeKey;
using moetune::RangeRecord;

namespace {

RangeKey range_key(const std::string& family = "head_dim=128") {
  return {"decode_attention", family, h200(), "sources", "nvrtc 13.0"};
}

RangeRecord range_record(std::uint64_t seed, const std::string& stored_at = "") {
  return {.table = "{\"seed\":" + std::to_string(seed) + "}",
          .progress = "so far",
          .variants = {{"tile=1", "", "interface", random_bytes(500, seed)},
                       {"tile=2", "", "interface", random_bytes(600, seed + 1)}},
          .stored_at = stored_at};
}

std::size_t cubin_count(const fs::path& file) { return std::stoul(raw_text(file, "SELECT count(*) FROM cubins")); }

}  // namespace

TEST_CASE("a range table comes back with its cubins, and another takes its place with all that it had") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "a.db", Cache::Mode::create);
  CHECK(cache.ranges.progress(range_key()).empty());
  cache.ranges.put(range_key(), range_record(1));
  cache.ranges.put(range_key("head_dim=64"), range_record(1));
  CHECK(cache.ranges.progress(range_key()) == "so far");
  const auto found = cache.ranges.of_family("decode_attention", "head_dim=128");
  REQUIRE(found.size() == 1);
  CHECK(found[0].key == range_key());
  CHECK(found[0].table == "{\"seed\":1}");
  REQUIRE(found[0].variants.size() == 2);
  CHECK(found[0].variants[1].config == "tile=2");
  CHECK(cache.winners.cubin(found[0].variants[0].cubin_digest) == random_bytes(500, 1));
  CHECK(cubin_count(dir / "a.db") == 2);  // both families share them

  cache.ranges.put(range_key(), range_record(10));
  cache.ranges.put(range_key("head_dim=64"), range_record(10));
  CHECK(cubin_count(dir / "a.db") == 2);
  CHECK(cache.ranges.of_family("decode_attention", "head_dim=128").at(0).table == "{\"seed\":10}");
  CHECK(check_cache(cache).empty());
  collect_garbage(cache, {});
  CHECK(cubin_count(dir / "a.db") == 2);
  // A winner that goes takes no cubin of a table with it.
  cache.winners.put(cache.workloads.id(workload_key()), winner(1));
  cache.winners.put(cache.workloads.id(workload_key()), winner(2));
  CHECK(cache.ranges.record(cache.ranges.of_family("decode_attention", "head_dim=64").at(0)).variants.size() == 2);
}

TEST_CASE("a record that only says how far a search is serves nobody") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "a.db", Cache::Mode::create);
  cache.ranges.put(range_key(), {.table = "", .progress = "half"});
  CHECK(cache.ranges.all().empty());
  CHECK(cache.ranges.progress(range_key()) == "half");
}

TEST_CASE("an altered range table counts as absent, and a check names it") {
  for (const char* change :
       {"UPDATE ranges SET plan = replace(plan, '1', '2')", "UPDATE ranges SET progress = 'other'",
        "UPDATE range_cubins SET config = 'tile=3' WHERE number = 0", "DELETE FROM range_cubins WHERE number = 1",
        "UPDATE range_cubins SET cubin = (SELECT cubin FROM range_cubins WHERE number = 1)"}) {
    CAPTURE(change);
    const TempDir dir;
    {
      Cache sound = Cache::open(dir / "a.db", Cache::Mode::create);
      sound.ranges.put(range_key(), range_record(1));
      CHECK_FALSE(sound.ranges.is_damaged(range_key()));
    }
    raw_sql(dir / "a.db", change);
    const Cache cache = Cache::open(dir / "a.db", Cache::Mode::read_only);
    CHECK(cache.ranges.all().empty());
    CHECK(cache.ranges.progress(range_key()).empty());
    CHECK(cache.ranges.is_damaged(range_key()));
    CHECK_FALSE(cache.ranges.is_damaged(range_key("head_dim=64")));
    REQUIRE(check_cache(cache).size() == 1);
    CHECK(says(check_cache(cache)[0].where, "range table 1 (decode_attention head_dim=128)"));
  }
}

namespace {

// "{"seed":5}" loses 5% at worst; odd ones are contended.
const moetune::RecordRules kBySeed{.range_merit = [](const std::string& table) {
  const int seed = std::stoi(table.substr(table.find(':') + 1));
  return moetune::RangeMerit{.contended = seed % 2 == 1, .regret = seed / 100.0};
}};

}  // namespace

TEST_CASE("a merge keeps the sound table that loses less, and a pack carries it without its progress") {
  const TempDir dir;
  {
    Cache better = Cache::open(dir / "better.db", Cache::Mode::create);
    better.ranges.put(range_key(), range_record(2, "2026-01-01T00:00:00Z"));
    better.winners.put(better.workloads.id(workload_key(), "head_dim=128"), winner(1));
    Cache later = Cache::open(dir / "later.db", Cache::Mode::create);
    later.ranges.put(range_key(), range_record(4, "2026-02-01T00:00:00Z"));
    Cache contended = Cache::open(dir / "contended.db", Cache::Mode::create);
    contended.ranges.put(range_key(), range_record(1, "2026-03-01T00:00:00Z"));
  }
  CHECK(moetune::merge_caches(dir / "better.db", {dir / "later.db", dir / "contended.db"}, kBySeed).ranges_taken == 0);
  CHECK(moetune::merge_caches(dir / "contended.db", {dir / "later.db"}, kBySeed).ranges_taken == 1);
  const auto by_date = [&](const char* into, const char* from) {
    return moetune::merge_caches(dir / into, {dir / from}, kBySeed, moetune::MergeOrder::later).ranges_taken;
  };
  CHECK(by_date("later.db", "better.db") == 0);
  moetune::merge_caches(dir / "copy.db", {dir / "better.db"}, kBySeed);
  CHECK(by_date("copy.db", "later.db") == 1);
  CHECK(moetune::merge_caches(dir / "later.db", {dir / "better.db"}, kBySeed).ranges_taken == 1);
  CHECK(moetune::merge_caches(dir / "later.db", {dir / "better.db"}, kBySeed).ranges_taken == 0);
  const Cache merged = Cache::open(dir / "later.db", Cache::Mode::read_only);
  CHECK(merged.ranges.all().at(0).table == "{\"seed\":2}");
  CHECK(merged.ranges.progress(range_key()) == "so far");  // its own search goes on where it was
  CHECK(check_cache(merged).empty());
  const Cache better = Cache::open(dir / "better.db", Cache::Mode::read_only);
  CHECK(moetune::export_pack(better, dir / "a.pack", {}).ranges == 1);
  const Cache pack = Cache::open(dir / "a.pack", Cache::Mode::read_only);
  CHECK(check_cache(pack).empty());
  CHECK(pack.ranges.progress(range_key()).empty());
  CHECK(pack.ranges.record(pack.ranges.all().at(0)).variants.at(0).cubin == random_bytes(500, 2));
}

TEST_CASE("a table goes with its history and its cubins, and no other table does") {
  const TempDir dir;
  RangeKey other = range_key();
  other.family = "head_dim=64";
  {
    Cache cache = Cache::open(dir / "a.db", Cache::Mode::create);
    cache.ranges.put(range_key(), range_record(1));
    cache.ranges.put(other, range_record(2));
  }
  Cache cache = Cache::open(dir / "a.db", Cache::Mode::read_write);
  cache.ranges.put(range_key(), range_record(3));
  const std::int64_t id = cache.ranges.of_family(range_key().kernel, range_key().family).at(0).id;
  REQUIRE(cache.ranges.history(id).size() == 1);

  CHECK(cache.ranges.forget(id));
  CHECK_FALSE(cache.ranges.forget(id));
  REQUIRE(cache.ranges.all().size() == 1);
  CHECK(cache.ranges.all().at(0).key == other);
  CHECK(cache.ranges.record(cache.ranges.all().at(0)).variants.size() == range_record(2).variants.size());
  CHECK(cache.ranges.history(id).empty());
  CHECK(check_cache(cache).empty());

  raw_sql(dir / "a.db", "UPDATE ranges SET plan = 'x'");  // a damaged one goes, too
  REQUIRE(check_cache(cache).size() == 1);
  CHECK(cache.ranges.forget(id + (id == 1 ? 1 : -1)));
  CHECK(check_cache(cache).empty());
}

TEST_CASE("a replaced table goes into the history with its cubins, once a search, and comes back") {
  const TempDir dir;
  const auto search = [&](const std::vector<std::uint64_t>& tables) {
    Cache cache = Cache::open(dir / "a.db", Cache::Mode::create);
    for (const std::uint64_t seed : tables) {
      RangeRecord record = range_record(seed);
      record.provenance = "{\"uuid\":\"GPU-" + std::to_string(seed) + "\"}";
      cache.ranges.put(range_key(), record);
    }
  };
  search({1, 10});       // a search that stores a better table of its own: no generation
  search({10, 20, 30});  // another one, which begins with what stands
  Cache cache = Cache::open(dir / "a.db", Cache::Mode::read_write);
  const std::int64_t id = cache.ranges.all().at(0).id;
  const auto history = cache.ranges.history(id);
  REQUIRE(history.size() == 1);
  CHECK(history[0].table == "{\"seed\":10}");
  CHECK(history[0].reason == "search");
  CHECK(history[0].provenance == "{\"uuid\":\"GPU-10\"}");
  CHECK(cubin_count(dir / "a.db") == 4);

  CHECK(cache.ranges.roll_back(id).number == 1);
  const moetune::FamilyRange back = cache.ranges.all().at(0);
  CHECK(back.table == "{\"seed\":10}");
  CHECK(back.provenance == "{\"uuid\":\"GPU-10\"}");
  CHECK(cache.ranges.record(back).variants.at(1).cubin == random_bytes(600, 11));
  CHECK(cache.ranges.progress(range_key()) == "so far");
  CHECK(check_cache(cache).empty());
  CHECK(cache.ranges.roll_back(id).table == "{\"seed\":30}");  // undoes the first
  CHECK_THROWS_AS(cache.ranges.roll_back(id, 9), moetune::BadInput);
  collect_garbage(cache, {.keep_generations = 1});
  CHECK(cache.ranges.history(id).size() == 1);
  CHECK(check_cache(cache).empty());
  const std::string latest = std::to_string(cache.ranges.history(id).at(0).number);
  raw_sql(dir / "a.db", "UPDATE range_history SET plan = 'x'");
  CHECK(cache.ranges.history(id).empty());
  REQUIRE(check_cache(cache).size() == 1);
  CHECK(says(check_cache(cache)[0].where, "generation " + latest + " of range table"));
}

TEST_CASE("a pack that was altered hands out neither winners nor range tables, and makes no other pack") {
  const std::string sealed_again =
      "; UPDATE ranges SET digest = (SELECT digest FROM ranges WHERE family = 'head_dim=64')"
      " WHERE family = 'head_dim=128'";
  const TempDir dir;
  {
    Cache cache = Cache::open(dir / "a.db", Cache::Mode::create);
    cache.ranges.put(range_key(), range_record(5));
    cache.ranges.put(range_key("head_dim=64"), range_record(5));
    cache.winners.put(cache.workloads.id(workload_key(), "head_dim=128"), winner(1));
    moetune::export_pack(cache, dir / "sound.pack", {});
  }
  const auto family_of = [](const Cache& pack) {
    return pack.winners.of_family("decode_attention", "head_dim=128").sound.size() +
           pack.ranges.of_family("decode_attention", "head_dim=128").size();
  };
  {
    const Cache sound = Cache::open(dir / "sound.pack", Cache::Mode::read_only);
    CHECK(family_of(sound) == 2);
    CHECK(sound.manifest()->find("decode_attention", "head_dim=64") != nullptr);  // that has no winner
    CHECK(moetune::export_pack(sound, dir / "again.pack", {}).ranges == 2);
  }
  for (const std::string& change : std::vector<std::string>{
           "DELETE FROM range_cubins; DELETE FROM ranges", "DELETE FROM winners",
           "UPDATE ranges SET plan = replace(plan, '5', '6')",
           "UPDATE ranges SET plan = replace(plan, '5', '6')" + sealed_again,
           "UPDATE ranges SET family = 'head_dim=128', timing = 'alone' WHERE family = 'head_dim=64'"}) {
    CAPTURE(change);
    fs::copy_file(dir / "sound.pack", dir / "altered.pack", fs::copy_options::overwrite_existing);
    raw_sql(dir / "altered.pack", change);
    const Cache pack = Cache::open(dir / "altered.pack", Cache::Mode::read_only);
    CHECK(says(broken([&] { family_of(pack); }), "it was altered"));
    if (change.find("UPDATE ranges SET plan") != 0)  // rows that are not the manifest's, whatever is read of them
      CHECK(says(broken([&] { pack.winners.of_family("decode_attention", "head_dim=128"); }), "it was altered"));
    CHECK(says(broken([&] { pack.ranges.of_family("decode_attention", "head_dim=128"); }), "it was altered"));
    CHECK(says(broken([&] { moetune::export_pack(pack, dir / "other.pack", {}); }), "it was altered"));
    CHECK_FALSE(fs::exists(dir / "other.pack"));
    CHECK_FALSE(check_cache(Cache::open(dir / "altered.pack", Cache::Mode::inspect)).empty());
  }
}

TEST_CASE("a table that was put into a pack, of a family that its manifest does not name, is refused") {
  const TempDir dir;
  {
    Cache cache = Cache::open(dir / "a.db", Cache::Mode::create);
    cache.winners.put(cache.workloads.id(workload_key(), "head_dim=128"), winner(1));
    moetune::export_pack(cache, dir / "a.pack", {});
    cache.ranges.put(range_key("head_dim=64"), range_record(5));
    moetune::export_pack(cache, dir / "b.pack", {});
  }
  raw_sql(dir / "b.pack",
          "ATTACH '" + (dir / "a.pack").string() + "' AS a; DELETE FROM pack; INSERT INTO pack SELECT * FROM a.pack");
  const Cache pack = Cache::open(dir / "b.pack", Cache::Mode::read_only);
  CHECK(pack.winners.of_family("decode_attention", "head_dim=128").sound.size() == 1);
  CHECK(says(broken([&] { pack.ranges.of_family("decode_attention", "head_dim=64"); }), "it was altered"));
  CHECK(says(broken([&] { moetune::export_pack(pack, dir / "c.pack", {}); }), "it was altered"));
}
