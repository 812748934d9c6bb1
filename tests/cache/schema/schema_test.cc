#include "cache/schema/schema.h"

#include <doctest/doctest.h>

#include "cache/schema/schema_check.h"
#include "tests/cache/support.h"

using moetune::Cache;
using moetune::Database;
using moetune::migrate;
using namespace cache_test;

namespace {

Database open_raw(const fs::path& file) {
  return Database(file, Database::Access::create, std::chrono::seconds(5));
}

// A shorter history than moetune's own, to walk through.
constexpr const char* kOne = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT";
constexpr const char* kTwo = "ALTER TABLE notes ADD COLUMN author TEXT NOT NULL DEFAULT 'unknown'";
constexpr const char* kBroken =
    "CREATE TABLE more (id INTEGER) STRICT; ALTER TABLE no_such_table ADD COLUMN x TEXT";

void write_first_version(const fs::path& file) {
  const Database database = open_raw(file);
  const char* const steps[] = {kOne};
  migrate(database, steps);
  database.run("INSERT INTO notes (text) VALUES ('kept')");
}

std::string open_error(const fs::path& file, Cache::Mode mode = Cache::Mode::create) {
  return broken([&] { Cache::open(file, mode); });
}

}  // namespace

TEST_CASE("an older file is brought up with its rows") {
  const TempDir dir;
  write_first_version(dir / "a.db");
  {
    const Database database = open_raw(dir / "a.db");
    const char* const steps[] = {kOne, kTwo};
    migrate(database, steps);
    migrate(database, steps);  // nothing left to do
    CHECK(database.integer_pragma("user_version") == 2);
  }
  CHECK(raw_text(dir / "a.db", "SELECT text || ' by ' || author FROM notes") == "kept by unknown");
}

TEST_CASE("a migration that fails leaves the older schema, whole") {
  const TempDir dir;
  write_first_version(dir / "a.db");
  {
    const Database database = open_raw(dir / "a.db");
    const char* const steps[] = {kOne, kTwo, kBroken};
    CHECK(says(broken([&] { migrate(database, steps); }), "no_such_table"));
  }
  CHECK(raw_text(dir / "a.db", "SELECT group_concat(name) FROM pragma_table_info('notes')") == "id,text");
  CHECK(raw_text(dir / "a.db", "SELECT count(*) FROM sqlite_schema WHERE name = 'more'") == "0");
  CHECK(raw_text(dir / "a.db", "PRAGMA user_version") == "1");
}

TEST_CASE("every migration ends at a schema of STRICT tables") {
  const TempDir dir;
  Cache::open(dir / "cache.db", Cache::Mode::create);
  CHECK(raw_text(dir / "cache.db",
                 "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND"
                 " name NOT LIKE 'sqlite_%' AND NOT strict") == "0");
  CHECK(raw_text(dir / "cache.db", "SELECT count(*) > 4 FROM pragma_table_list WHERE strict") == "1");
  CHECK(raw_text(dir / "cache.db", "PRAGMA application_id") == std::to_string(moetune::kApplicationId));
  CHECK(raw_text(dir / "cache.db", "PRAGMA user_version") == std::to_string(moetune::migrations().size()));
  CHECK(raw_text(dir / "cache.db", "PRAGMA journal_mode") == "wal");
}

TEST_CASE("the schema's digest is of what the migrations make") {
  const TempDir dir;
  Cache::open(dir / "cache.db", Cache::Mode::create);
  const Database database(dir / "cache.db", Database::Access::read_only, std::chrono::seconds(5));
  CHECK(moetune::schema_digest(database) ==
        moetune::known_schema_digest(static_cast<std::int64_t>(moetune::migrations().size())));
  // Packs that are shipped.
  const Database old(dir / "old.db", Database::Access::create, std::chrono::seconds(5));
  migrate(old, moetune::migrations().first(6));
  CHECK(moetune::schema_digest(old) == moetune::known_schema_digest(6));
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
