// No row of a cache can be changed or moved without its digest showing it.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/digest.h"
#include "cache/check.h"
#include "cache/file/blob.h"
#include "cache/file/database.h"
#include "cache/merge.h"
#include "cache/ranges.h"
#include "cache/schema/schema.h"
#include "cache/winners.h"
#include "tests/cache/support.h"

using moetune::Cache;
using moetune::Database;
using moetune::Query;
using namespace cache_test;

namespace {

moetune::WinnerRecord with_default(int number) {
  moetune::WinnerRecord record = winner(number);
  record.default_launch = winner(number + 1);
  return record;
}

std::int64_t fill_records(const fs::path& file) {
  const moetune::RangeKey range{"decode_attention", "head_dim=128", h200(), "sources", "nvrtc"};
  Cache::open(file, Cache::Mode::create)  // an earlier search's table, which goes into the history
      .ranges.put(range, {.table = "[]", .progress = "", .variants = {with_default(5)}, .provenance = "{}"});
  Cache cache = Cache::open(file, Cache::Mode::create);
  const std::int64_t id = cache.workloads.id(workload_key(), "head_dim=128");
  for (int i = 0; i < 3; ++i) cache.trials.put(id, trial(i));
  cache.trials.put(cache.workloads.id(workload_key("batch=1"), "head_dim=128"), trial(9));
  cache.winners.put(id, with_default(5));
  cache.winners.put(id, with_default(1));
  cache.trials.put_calibration(h200(), "read_tb_s", 4.6);
  cache.ranges.put(range, {.table = "{}",
                           .progress = "so far",
                           .variants = {with_default(1)},
                           .stored_at = "2026-01-01",
                           .provenance = "{}"});
  cache.builds.put("d1", {"ok", "{}", "log", random_bytes(2'000, 1)});
  return id;
}

struct Column {
  std::string table, name, type;
};

// Numbers of rows, a build's place in the order of use and since when a search writes are no facts. A cache has no row
// of a pack's.
bool is_no_fact(const Column& column) {
  return column.name == "id" || column.table == "pack" || column.table == "writing" ||
         (column.table == "builds" && (column.name == "used" || column.name == "stored_bytes"));
}

std::vector<Column> columns(const fs::path& file) {
  std::vector<Column> all;
  const Database database(file, Database::Access::immutable, std::chrono::seconds(5));
  Query row = database.query(
      "SELECT t.name, c.name, c.type FROM pragma_table_list t, pragma_table_info(t.name) c"
      " WHERE t.schema = 'main' AND t.name NOT LIKE 'sqlite_%' ORDER BY 1, 2");
  while (row.step()) {
    Column column{row.text(0), row.text(1), row.text(2)};
    if (!is_no_fact(column)) all.push_back(std::move(column));
  }
  return all;
}

// Other values of the column's type, as SQL.
std::vector<std::string> changes(const Column& column) {
  const std::string& name = column.name;
  if (column.type == "INTEGER") return {"coalesce(" + name + ", 0) + 1", name + " - 1"};
  if (column.type == "REAL") return {name + " * 1.0000000001", "-" + name, "9e999"};
  if (column.type == "BLOB") return {"CAST(" + name + " || x'00' AS BLOB)", "x''"};
  return {name + " || ' '", "'x'"};
}

// One row of each table, so that no unique column refuses.
std::string update(const Column& column, const std::string& value) {
  return "PRAGMA foreign_keys = OFF; UPDATE OR REPLACE " + column.table + " SET " + column.name + " = " + value +
         " WHERE " + column.name + " = (SELECT max(" + column.name + ") FROM " + column.table + ") AND " + column.name +
         " IS NOT " + value;
}

}  // namespace

TEST_CASE("whatever is changed in a row, check names it") {
  const TempDir dir;
  fill_records(dir / "sound.db");
  raw_sql(dir / "sound.db", "PRAGMA journal_mode = delete");
  const std::string sound = read_file(dir / "sound.db");
  int tried = 0;
  for (const Column& column : columns(dir / "sound.db")) {
    for (const std::string& value : changes(column)) {
      const std::string sql = update(column, value);
      CAPTURE(sql);
      write_file(dir / "changed.db", sound);
      raw_sql(dir / "changed.db", sql);
      const Cache cache = Cache::open(dir / "changed.db", Cache::Mode::inspect);
      CHECK(!check_cache(cache).empty());
      ++tried;
    }
  }
  CHECK(tried > 100);
}

TEST_CASE("a winner that was changed, or moved to another problem, is not handed out") {
  const TempDir dir;
  for (const char* change :
       {"UPDATE winners SET time_us = time_us / 2", "UPDATE winners SET default_time_us = 99",
        "UPDATE winners SET roofline = 1", "UPDATE winners SET workload = 2", "UPDATE winners SET contended = 1",
        "UPDATE winners SET provenance = '{}'", "UPDATE winners SET stored_at = '2000-01-01T00:00:00Z'",
        "UPDATE winners SET fallback_config = ''", "UPDATE workloads SET problem = 'batch=7' WHERE id = 1",
        "UPDATE hardware SET sm_count = 1", "UPDATE winners SET interface = ''",
        "UPDATE winners SET cubin = fallback_cubin"}) {
    CAPTURE(change);
    fs::remove(dir / "cache.db");
    fill_records(dir / "cache.db");
    raw_sql(dir / "cache.db", change);
    const Cache cache = Cache::open(dir / "cache.db", Cache::Mode::read_only);
    bool handed_out = false;
    for (const std::int64_t id : {1, 2}) {
      try {
        handed_out = handed_out || cache.winners.find(id).has_value();
      } catch (const moetune::DamagedWinner&) {
      }
    }
    CHECK_FALSE(handed_out);
    const auto found = cache.winners.of_family("decode_attention", "head_dim=128");
    CHECK(found.sound.empty());
    CHECK(std::to_string(found.damaged) ==
          raw_text(dir / "cache.db",
                   "SELECT count(*) FROM workloads w JOIN winners v ON v.workload = w.id"
                   " WHERE kernel = 'decode_attention' AND family = 'head_dim=128'"));
  }
}

TEST_CASE("a family's winners come latest first, and damaged ones are counted apart") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  const char* const dates[] = {"2026-11-02T00:00:00Z", "2026-11-03T00:00:00Z", "2026-11-02T00:00:00Z",
                               "2026-10-09T00:00:00Z", "2026-11-03T00:00:00Z"};
  for (int i = 0; i < 5; ++i) {
    moetune::WinnerRecord record = winner(1);
    record.stored_at = dates[i];
    cache.winners.put(cache.workloads.id(workload_key("batch=" + std::to_string(i)), "f"), record);
  }
  const auto problems = [&] {
    std::string all;
    for (const auto& one : cache.winners.of_family("decode_attention", "f").sound)
      all += one.workload.key.problem + " ";
    return all;
  };
  CHECK(problems() == "batch=4 batch=1 batch=2 batch=0 batch=3 ");
  CHECK(cache.winners.of_family("decode_attention", "f").damaged == 0);
  raw_sql(dir / "cache.db", "UPDATE winners SET roofline = 0.125 WHERE workload = 2");
  CHECK(problems() == "batch=4 batch=2 batch=0 batch=3 ");
  CHECK(cache.winners.of_family("decode_attention", "f").damaged == 1);
  raw_sql(dir / "cache.db", "UPDATE hardware SET sm_count = 1");
  CHECK(problems().empty());
  CHECK(cache.winners.of_family("decode_attention", "f").damaged == 5);
  CHECK(cache.winners.of_family("decode_attention", "g").damaged == 0);
}

TEST_CASE("a trial that was changed or moved counts as absent, and the others stand") {
  const TempDir dir;
  const std::int64_t id = fill_records(dir / "cache.db");
  raw_sql(dir / "cache.db", "UPDATE trials SET time_us = 1 WHERE config = '" + trial(1).config + "'");
  raw_sql(dir / "cache.db", "UPDATE trials SET workload = 1 WHERE workload = 2");
  const Cache cache = Cache::open(dir / "cache.db", Cache::Mode::read_only);
  const auto trials = cache.trials.of(id);
  REQUIRE(trials.size() == 2);
  CHECK(trials[0].config == trial(0).config);
  CHECK(trials[1].config == trial(2).config);
}

TEST_CASE("trials of a workload or of hardware that was changed count as absent") {
  for (const char* change : {"UPDATE hardware SET origin = 'replay:1'", "UPDATE hardware SET driver = '1'",
                             "UPDATE workloads SET family = 'x'"}) {
    const TempDir dir;
    const std::int64_t id = fill_records(dir / "cache.db");
    raw_sql(dir / "cache.db", change);
    CHECK(Cache::open(dir / "cache.db", Cache::Mode::read_only).trials.of(id).empty());
  }
}

TEST_CASE("a calibration that was changed is unknown") {
  const TempDir dir;
  fill_records(dir / "cache.db");
  raw_sql(dir / "cache.db", "UPDATE calibrations SET value = 9");
  CHECK_FALSE(Cache::open(dir / "cache.db", Cache::Mode::read_only).trials.calibrations(h200()).contains("read_tb_s"));
}

TEST_CASE("winners of one cubin share it, and it goes with the last of them") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  const std::int64_t one = cache.workloads.id(workload_key("batch=1"), "f");
  const std::int64_t two = cache.workloads.id(workload_key("batch=2"), "f");
  cache.winners.put(one, with_default(1));
  cache.winners.put(two, with_default(1));
  const auto count = [&] { return raw_text(dir / "cache.db", "SELECT count(*) FROM cubins"); };
  CHECK(count() == "2");
  const auto found = cache.winners.of_family("decode_attention", "f").sound;
  REQUIRE(found.size() == 2);
  CHECK(found[0].cubin_digest == found[1].cubin_digest);
  CHECK(cache.winners.cubin(found[0].cubin_digest) == winner(1).cubin);
  CHECK(cache.winners.cubin(found[0].default_cubin_digest) == winner(2).cubin);
  CHECK(found[0].cubin_digest == moetune::digest(winner(1).cubin));
  cache.winners.put(one, winner(5));
  CHECK(count() == "3");
  cache.winners.put(two, winner(5));
  CHECK(count() == "3");  // the history has them
  CHECK(cache.winners.find(two)->default_launch.config.empty());
  cache.workloads.forget(one);
  CHECK(count() == "3");
  cache.winners.roll_back(two);
  CHECK(cache.winners.find(two)->cubin == winner(1).cubin);
  cache.workloads.forget(two);
  CHECK(count() == "0");
}

TEST_CASE("a workload gets its family once") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  const std::int64_t id = cache.workloads.id(workload_key());
  cache.winners.put(id, winner(1));
  CHECK(cache.winners.of_family("decode_attention", "f").sound.empty());
  CHECK(cache.workloads.id(workload_key(), "f") == id);
  REQUIRE(cache.winners.of_family("decode_attention", "f").sound.size() == 1);
  CHECK(cache.workloads.id(workload_key(), "g") == id);
  CHECK(cache.winners.of_family("decode_attention", "f").sound.size() == 1);
  CHECK(cache.winners.find(id));
  CHECK(check_cache(cache).empty());
}
