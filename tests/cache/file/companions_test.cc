#include "cache/file/companions.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdexcept>

#include "tests/cache/support.h"

using namespace cache_test;
using moetune::Cache;
using moetune::CacheOptions;

namespace {

constexpr Cache::Mode kModes[] = {Cache::Mode::read_only, Cache::Mode::inspect, Cache::Mode::read_write,
                                  Cache::Mode::create};

std::string open_sentence(const fs::path& file, Cache::Mode mode) {
  return broken([&] { Cache::open(file, mode, CacheOptions{.busy_timeout = std::chrono::milliseconds(200)}); });
}

// A cache with the journal of a change to it that was cut off.
void cut_off_change(const fs::path& file) {
  { Cache::open(file, Cache::Mode::create).workloads.id(workload_key()); }
  const pid_t killed = start([&] {
    SQLite::Database raw(file.string(), SQLite::OPEN_READWRITE);
    raw.exec("PRAGMA journal_mode = DELETE; PRAGMA cache_size = 2; PRAGMA cache_spill = 1; BEGIN IMMEDIATE");
    raw.exec(
        "CREATE TABLE filler (x); INSERT INTO filler SELECT hex(zeroblob(40000)) FROM "
        "(SELECT 1 UNION SELECT 2 UNION SELECT 3)");
    raw.exec("UPDATE workloads SET toolchain = hex(zeroblob(20000))");
    ::_exit(0);
  });
  REQUIRE(finish(killed) == 0);
  REQUIRE(fs::file_size(file.string() + "-journal") > 512);
}

std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xFF);
  return bytes;
}

// As SQLite's writeSuperJournal() ends a journal.
std::string super_journal_tail(const std::string& name) {
  std::uint32_t checksum = 0;
  for (const char c : name) checksum += static_cast<std::uint32_t>(c);
  return big_endian(1073741824 / 4096 + 1) + name + big_endian(static_cast<std::uint32_t>(name.size())) +
         big_endian(checksum) + "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
}

}  // namespace

TEST_CASE("a journal that names a super-journal is refused, and nobody's file is deleted") {
  const TempDir dir;
  const fs::path file = dir / "cache.db", precious = dir / "precious";
  cut_off_change(file);
  write_file(precious, "years of work");
  write_file(file.string() + "-journal", read_file(file.string() + "-journal") + super_journal_tail(precious.string()));
  const auto before = dir.content();
  for (const Cache::Mode mode : kModes) {
    CHECK(open_sentence(file, mode).find("names another file for SQLite to delete") != std::string::npos);
  }
  fs::create_symlink(file, dir / "link.db");
  CHECK(open_sentence(dir / "link.db", Cache::Mode::read_only).find("names another file") != std::string::npos);
  fs::remove(dir / "link.db");
  CHECK(dir.content() == before);
}

TEST_CASE("a pipe, a link or a folder beside a cache is refused at once") {
  const TempDir dir;
  const fs::path file = dir / "cache.db";
  { Cache::open(file, Cache::Mode::create).workloads.id(workload_key()); }
  for (const char* suffix : {"-journal", "-wal", "-shm"}) {
    const fs::path odd = file.string() + suffix;
    for (int kind = 0; kind < 3; ++kind) {
      fs::remove(odd);
      if (kind == 0) REQUIRE(::mkfifo(odd.c_str(), 0600) == 0);
      if (kind == 1) fs::create_symlink(dir / "elsewhere", odd);
      if (kind == 2) fs::create_directory(odd);
      for (const Cache::Mode mode : kModes) {
        CHECK(open_sentence(file, mode).find(suffix + std::string(" is not a regular file")) != std::string::npos);
      }
    }
    fs::remove(odd);
  }
  CHECK_FALSE(fs::exists(dir / "elsewhere"));
  CHECK(open_sentence(file, Cache::Mode::read_only) == "");
}

TEST_CASE("the journal of a writer at work is no change that was cut off") {
  const TempDir dir;
  const fs::path file = dir / "cache.db";
  { Cache::open(file, Cache::Mode::create).workloads.id(workload_key()); }
  SQLite::Database writer(file.string(), SQLite::OPEN_READWRITE);
  writer.exec("PRAGMA journal_mode = DELETE; PRAGMA cache_size = 2; PRAGMA cache_spill = 1; BEGIN IMMEDIATE");
  CHECK(open_sentence(file, Cache::Mode::read_only) == "");
  writer.exec("CREATE TABLE filler (x); INSERT INTO filler VALUES (hex(zeroblob(400000)))");
  REQUIRE(moetune::has_journal(file));
  CHECK(open_sentence(file, Cache::Mode::read_only).find("locked for 0.20 s") != std::string::npos);
  writer.exec("ROLLBACK");
}

TEST_CASE("the lock file is not made through a link") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  fs::create_symlink(dir / "elsewhere", (dir / "cache.db").string() + "-searches");
  cache.workloads.begin_search(cache.workloads.id(workload_key()));
  CHECK_FALSE(fs::exists(dir / "elsewhere"));
}
