#include "cache/schema/schema.h"

#include <doctest/doctest.h>

#include "cache/check.h"
#include "cache/schema/schema_check.h"
#include "tests/cache/support.h"

using moetune::Cache;
using moetune::Database;
using namespace cache_test;

namespace {

std::string open_error(const fs::path& file, Cache::Mode mode = Cache::Mode::create) {
  return broken([&] { Cache::open(file, mode); });
}

}  // namespace

TEST_CASE("a new file has STRICT tables of the one schema") {
  const TempDir dir;
  Cache::open(dir / "cache.db", Cache::Mode::create);
  CHECK(raw_text(dir / "cache.db",
                 "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND"
                 " name NOT LIKE 'sqlite_%' AND NOT strict") == "0");
  CHECK(raw_text(dir / "cache.db", "SELECT count(*) > 4 FROM pragma_table_list WHERE strict") == "1");
  CHECK(raw_text(dir / "cache.db", "PRAGMA application_id") == std::to_string(moetune::kApplicationId));
  CHECK(raw_text(dir / "cache.db", "PRAGMA user_version") == std::to_string(moetune::kSchemaVersion));
  CHECK(raw_text(dir / "cache.db", "PRAGMA journal_mode") == "wal");
}

TEST_CASE("the schema's digest is of what the statements make, and a table of rivals does not count") {
  const TempDir dir;
  Cache::open(dir / "cache.db", Cache::Mode::create);
  const auto digest_of = [&] {
    return moetune::schema_digest(Database(dir / "cache.db", Database::Access::read_only, std::chrono::seconds(5)));
  };
  CHECK(digest_of() == moetune::kCacheSchemaDigest);
  raw_sql(dir / "cache.db", "CREATE TABLE rivals (workload INTEGER REFERENCES workloads(id)) STRICT");
  CHECK(digest_of() == moetune::kCacheSchemaDigest);
  CHECK(open_error(dir / "cache.db") == "");
  CHECK(check_cache(Cache::open(dir / "cache.db", Cache::Mode::inspect)).empty());
  raw_sql(dir / "cache.db", std::string("DROP TABLE rivals; ") + moetune::kDropCacheSchema);
  CHECK(digest_of() == moetune::kSchemaDigest);
}

TEST_CASE("an older schema is refused in one sentence that says how its winners come over") {
  const TempDir dir;
  Cache::open(dir / "cache.db", Cache::Mode::create);
  raw_sql(dir / "cache.db", "PRAGMA journal_mode = delete; DROP TABLE tallies; PRAGMA user_version = 6");
  const auto before = dir.content();
  for (const Cache::Mode mode :
       {Cache::Mode::create, Cache::Mode::read_write, Cache::Mode::read_only, Cache::Mode::inspect}) {
    const std::string sentence = open_error(dir / "cache.db", mode);
    CHECK(says(sentence, (dir / "cache.db").string() + " has schema 6, of a moetune before 0.1.0"));
    CHECK(says(sentence, "`moetune cache import NEW.pack`"));
    CHECK(sentence.find('\n') == std::string::npos);
    CHECK(dir.content() == before);
  }
  CHECK(broken([&] { Cache::open_content("x.pack", read_file(dir / "cache.db"), Cache::Mode::read_only); }) != "");
  CHECK_FALSE(Cache::open_settled(dir / "cache.db", std::chrono::milliseconds(0)));
}

TEST_CASE("a newer schema is refused and the file untouched") {
  const TempDir dir;
  Cache::open(dir / "cache.db", Cache::Mode::create);
  raw_sql(dir / "cache.db", "PRAGMA user_version = 99");
  const auto before = dir.content();
  for (const Cache::Mode mode : {Cache::Mode::create, Cache::Mode::read_write, Cache::Mode::read_only}) {
    const std::string sentence = open_error(dir / "cache.db", mode);
    CHECK(says(sentence, "has schema 99, of a newer moetune"));
    CHECK(says(sentence, (dir / "cache.db").string()));
    CHECK(dir.content() == before);
  }
}

TEST_CASE("another application's database is refused and untouched, even with a journal left to roll back") {
  const TempDir dir;
  raw_sql(dir / "a.db", "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)");
  raw_sql(dir / "b.db", "PRAGMA application_id = 77");
  raw_sql(dir / "c.db", "PRAGMA journal_mode = WAL; CREATE TABLE theirs (x)");
  write_file(dir / "a.db-journal", "left behind");
  const auto before = dir.content();
  for (const char* name : {"a.db", "b.db", "c.db"}) {
    CHECK(says(open_error(dir / name), "another application's"));
    CHECK(says(open_error(dir / name, Cache::Mode::read_only), "another application's"));
  }
  CHECK(dir.content() == before);
}

TEST_CASE("an empty file becomes a cache when written, and is none when read") {
  const TempDir dir;
  write_file(dir / "empty.db", "");
  CHECK(says(open_error(dir / "empty.db", Cache::Mode::read_only), "is empty"));
  CHECK(read_file(dir / "empty.db").empty());
  CHECK(open_error(dir / "empty.db") == "");
  CHECK(open_error(dir / "empty.db", Cache::Mode::read_only) == "");
}
