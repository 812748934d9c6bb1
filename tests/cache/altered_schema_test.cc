#include <doctest/doctest.h>

#include <algorithm>

#include "cache/cache.h"
#include "cache/check.h"
#include "tests/cache/support.h"

using moetune::Cache;
using namespace cache_test;

namespace {

constexpr Cache::Mode kUsing[] = {Cache::Mode::create, Cache::Mode::read_write, Cache::Mode::read_only};

// A closed cache with a row in every table.
void fill_each(const fs::path& file) {
  Cache cache = Cache::open(file, Cache::Mode::create);
  const std::int64_t id = cache.workloads.id(workload_key());
  cache.trials.put(id, trial(1));
  cache.winners.put(id, winner(1));
  cache.builds.put("d1", {"ok", "{}", "", random_bytes(200, 1)});
  cache.trials.put_calibration(h200(), "read_tb_s", 4.7);
}

struct Alteration {
  const char* sql;
  const char* sentence;
};

constexpr Alteration kAlterations[] = {
    {"DROP TABLE calibrations", "the table calibrations is missing"},
    {"DROP INDEX builds_by_use", "the index builds_by_use is missing"},
    {"DROP INDEX builds_by_use; CREATE INDEX builds_by_use ON builds (used)",
     "the index builds_by_use is declared otherwise"},
    {"ALTER TABLE winners DROP COLUMN roofline", "the table winners has no column roofline"},
    {"ALTER TABLE trials RENAME COLUMN samples TO sample_count", "the table trials has no column samples"},
    {"ALTER TABLE trials RENAME COLUMN samples TO sample_count", "the table trials has a strange column sample_count"},
    {"ALTER TABLE trials ADD COLUMN note TEXT", "the table trials has a strange column note"},
    {"DROP TABLE calibrations; CREATE TABLE calibrations (hardware INTEGER NOT NULL REFERENCES hardware(id) "
     "ON"
     " DELETE CASCADE, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (hardware, name)) STRICT, "
     "WITHOUT "
     "ROWID; ALTER TABLE calibrations ADD COLUMN digest TEXT NOT NULL DEFAULT ''",
     "the column calibrations.value is TEXT NOT NULL instead of REAL NOT NULL"},
    {"DROP TABLE calibrations; CREATE TABLE calibrations (hardware INTEGER NOT NULL, name TEXT NOT NULL, "
     "value"
     " REAL NOT NULL, PRIMARY KEY (hardware, name)) STRICT, WITHOUT ROWID; ALTER TABLE calibrations ADD "
     "COLUMN"
     " digest TEXT NOT NULL DEFAULT ''",
     "the table calibrations is declared otherwise"},
    {"CREATE TABLE notes (text TEXT)", "the table notes is strange"},
    {"CREATE TRIGGER greedy AFTER INSERT ON trials BEGIN DELETE FROM winners; END", "the trigger greedy is strange"},
    {"DROP TABLE calibrations; CREATE VIEW calibrations AS SELECT 1", "the view calibrations is strange"},
};

}  // namespace

TEST_CASE("check names each missing, altered or strange part of the schema") {
  for (const Alteration& alteration : kAlterations) {
    const std::string sql = alteration.sql;
    CAPTURE(sql);
    const TempDir dir;
    fill_each(dir / "cache.db");
    REQUIRE(check_cache(Cache::open(dir / "cache.db", Cache::Mode::inspect)).empty());
    raw_sql(dir / "cache.db", alteration.sql);
    const auto problems = check_cache(Cache::open(dir / "cache.db", Cache::Mode::inspect));
    CHECK(std::any_of(problems.begin(), problems.end(), [&](const moetune::CacheProblem& problem) {
      return problem.where == "schema" && problem.what == alteration.sentence;
    }));
  }
}

TEST_CASE("a cache whose schema was altered is refused by what uses it, and untouched") {
  for (const Alteration& alteration : kAlterations) {
    const std::string sql = alteration.sql;
    CAPTURE(sql);
    const TempDir dir;
    fill_each(dir / "cache.db");
    raw_sql(dir / "cache.db", alteration.sql);
    const std::string before = read_file(dir / "cache.db");
    for (const Cache::Mode mode : kUsing) {
      const std::string sentence = broken([&] { Cache::open(dir / "cache.db", mode); });
      CHECK(says(sentence, (dir / "cache.db").string() + " is not as moetune made it"));
      CHECK(says(sentence, alteration.sentence));
    }
    CHECK(read_file(dir / "cache.db") == before);
  }
}

TEST_CASE("tables of another application under moetune's mark are refused and untouched") {
  const TempDir dir;
  raw_sql(dir / "a.db", "PRAGMA application_id = 1836017012; CREATE TABLE theirs (x)");
  raw_sql(dir / "b.db", "PRAGMA application_id = 1836017012; PRAGMA user_version = 7; CREATE TABLE theirs (x)");
  const std::string before = read_file(dir / "a.db") + read_file(dir / "b.db");
  CHECK(says(broken([&] { Cache::open(dir / "a.db", Cache::Mode::create); }), "has schema 0, which no moetune makes"));
  for (const Cache::Mode mode : {Cache::Mode::create, Cache::Mode::read_only}) {
    const std::string sentence = broken([&] { Cache::open(dir / "b.db", mode); });
    CHECK(says(sentence, "the table theirs is strange"));
    CHECK(says(sentence, "the table trials is missing"));
  }
  CHECK(read_file(dir / "a.db") + read_file(dir / "b.db") == before);
}

TEST_CASE("a negative version is refused in every mode, and the file untouched") {
  const TempDir dir;
  fill_each(dir / "cache.db");
  raw_sql(dir / "cache.db", "PRAGMA user_version = -3");
  const auto before = dir.content();
  for (const Cache::Mode mode :
       {Cache::Mode::create, Cache::Mode::read_write, Cache::Mode::read_only, Cache::Mode::inspect}) {
    CHECK(says(broken([&] { Cache::open(dir / "cache.db", mode); }), "has schema -3, which no moetune makes"));
  }
  CHECK(dir.content() == before);
}

TEST_CASE("what SQLite keeps for itself is no alteration") {
  const TempDir dir;
  fill_each(dir / "cache.db");
  raw_sql(dir / "cache.db", "ANALYZE; VACUUM");
  CHECK(raw_text(dir / "cache.db", "SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'sqlite_stat1'") == "1");
  CHECK(broken([&] { Cache::open(dir / "cache.db", Cache::Mode::create); }) == "");
  CHECK(check_cache(Cache::open(dir / "cache.db", Cache::Mode::inspect)).empty());
}

TEST_CASE("check finds dangling references of trials, winners, workloads and calibrations") {
  const struct {
    const char* sql;
    std::vector<std::string> wheres;
    const char* missing;
  } kinds[] = {{"DELETE FROM workloads", {"trials 1", "winners 1"}, "workloads"},
               {"DELETE FROM hardware", {"workloads 1", "calibrations"}, "hardware"}};
  for (const auto& kind : kinds) {
    CAPTURE(kind.sql);
    const TempDir dir;
    fill_each(dir / "cache.db");
    raw_sql(dir / "cache.db", std::string("PRAGMA foreign_keys = OFF; ") + kind.sql);
    const auto problems = check_cache(Cache::open(dir / "cache.db", Cache::Mode::inspect));
    for (const std::string& where : kind.wheres) {
      CAPTURE(where);
      CHECK(std::any_of(problems.begin(), problems.end(), [&](const moetune::CacheProblem& problem) {
        return problem.where == where && problem.what == std::string("belongs to a missing row of ") + kind.missing;
      }));
    }
  }
}

TEST_CASE("check finds hardware that is not what its key says, and ceilings that are none") {
  const TempDir dir;
  fill_each(dir / "cache.db");
  raw_sql(dir / "cache.db", "UPDATE hardware SET sm_count = 1; UPDATE calibrations SET value = -4.7");
  const auto problems = check_cache(Cache::open(dir / "cache.db", Cache::Mode::inspect));
  REQUIRE(problems.size() == 3);  // and the winner that is of this hardware
  CHECK(problems[0].where == "hardware 1");
  CHECK(problems[1].where == "calibration read_tb_s of hardware 1");
  CHECK(problems[1].what == "is no positive number: -4.7");
}

TEST_CASE("check asks the rules of every trial and every winner that matches its digest") {
  const TempDir dir;
  fill_each(dir / "cache.db");
  const moetune::RecordRules rules = {
      .trial = [](const auto& key, const auto& trial) { return key.problem + " " + trial.config; },
      .winner = [](const auto& of, const auto& winner, auto) { return of.key.kernel + " " + winner.config; }};
  const auto problems = check_cache(Cache::open(dir / "cache.db", Cache::Mode::inspect), rules);
  REQUIRE(problems.size() == 2);
  CHECK(problems[0].where == "trial 1 of workload 1 (decode_attention batch=64)");
  CHECK(problems[0].what == "batch=64 " + trial(1).config);
  CHECK(problems[1].where == "winner 1 (decode_attention batch=64)");
  CHECK(problems[1].what == "decode_attention " + winner(1).config);
  raw_sql(dir / "cache.db", "UPDATE winners SET config = 'tampered=1'");
  CHECK(check_cache(Cache::open(dir / "cache.db", Cache::Mode::inspect), rules)[1].what == "does not match its digest");
}
