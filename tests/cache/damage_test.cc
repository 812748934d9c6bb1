#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/error.h"
#include "cache/cache.h"
#include "cache/check.h"
#include "tests/cache/support.h"

using moetune::BadInput;
using moetune::Cache;
using namespace cache_test;

namespace {

// A closed cache of several hundred pages. Returns the workload.
std::int64_t fill(const fs::path& file) {
  Cache cache = Cache::open(file, Cache::Mode::create);
  const std::int64_t id = cache.workloads.id(workload_key());
  for (int i = 0; i < 500; ++i) cache.trials.put(id, trial(i));
  cache.winners.put(id, winner(1));
  cache.builds.put("d1", {"ok", "{}", "", random_bytes(20'000, 1)});
  cache.builds.put("d2", {"ok", "{}", "", random_bytes(20'000, 2)});
  return id;
}

void flip_byte(const fs::path& file, const std::string& table, const std::string& column, const std::string& where) {
  const std::string middle = std::to_string(10'000);
  raw_sql(file, "UPDATE " + table + " SET " + column + " = CAST(substr(" + column + ", 1, " + middle +
                    ") || CASE substr(" + column + ", " + middle +
                    " + 1, 1) WHEN x'00' THEN x'01' ELSE x'00' END || substr(" + column + ", " + middle +
                    " + 2) AS BLOB) WHERE " + where);
}

}  // namespace

TEST_CASE("a winner with one changed byte in its cubin or plan is never handed out, and a new one heals it") {
  const TempDir dir;
  const std::int64_t id = fill(dir / "cache.db");
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  REQUIRE(cache.winners.find(id));
  flip_byte(dir / "cache.db", "cubins", "frame", "1");
  const std::string sentence = broken([&] { cache.winners.find(id); });
  CHECK(says(sentence, "the winner of workload " + std::to_string(id)));
  CHECK(says(sentence, (dir / "cache.db").string()));
  REQUIRE(check_cache(cache).size() == 2);
  CHECK(check_cache(cache)[0].where == "winner " + std::to_string(id) + " (decode_attention batch=64)");
  CHECK(check_cache(cache)[1].where.starts_with("cubin "));
  cache.winners.put(id, winner(1));
  CHECK(cache.winners.find(id)->cubin == winner(1).cubin);
  raw_sql(dir / "cache.db", "UPDATE winners SET plan = plan || ' '");
  CHECK(says(broken([&] { cache.winners.find(id); }), "does not match its digest"));
  raw_sql(dir / "cache.db", "UPDATE winners SET plan = trim(plan); UPDATE cubins SET bytes = 1 << 45");
  CHECK(says(broken([&] { cache.winners.find(id); }), "does not match its digest"));
}

TEST_CASE("a build with one changed byte counts as absent, and check names it") {
  const TempDir dir;
  fill(dir / "cache.db");
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  flip_byte(dir / "cache.db", "builds", "cubin", "name = 'd1'");
  CHECK_FALSE(cache.builds.find("d1"));
  CHECK(cache.builds.find("d2"));
  REQUIRE(check_cache(cache).size() == 1);
  CHECK(check_cache(cache)[0].where == "build d1");
  cache.builds.put("d1", {"ok", "{}", "", random_bytes(20'000, 1)});
  CHECK(cache.builds.find("d1"));
}

TEST_CASE("check finds a row without its parent") {
  const TempDir dir;
  fill(dir / "cache.db");
  raw_sql(dir / "cache.db", "PRAGMA foreign_keys = OFF; DELETE FROM workloads");
  const Cache cache = Cache::open(dir / "cache.db", Cache::Mode::read_only);
  const auto problems = check_cache(cache);
  CHECK(std::any_of(problems.begin(), problems.end(),
                    [](const auto& problem) { return says(problem.what, "missing row of workloads"); }));
}

TEST_CASE("a file that is no database is refused and untouched") {
  const TempDir dir;
  write_file(dir / "notes.txt", "These are notes, and long enough to be taken for a header. " + std::string(5000, '.'));
  write_file(dir / "short", "x");
  const auto before = dir.content();
  for (const char* name : {"notes.txt", "short"}) {
    for (const Cache::Mode mode : {Cache::Mode::create, Cache::Mode::read_write, Cache::Mode::read_only}) {
      const std::string sentence = broken([&] { Cache::open(dir / name, mode); });
      CHECK(says(sentence, (dir / name).string() + " is not a moetune cache"));
    }
  }
  CHECK(dir.content() == before);
}

TEST_CASE("a cache cut short is refused as damaged and untouched") {
  const TempDir dir;
  fill(dir / "cache.db");
  fs::resize_file(dir / "cache.db", fs::file_size(dir / "cache.db") / 8192 * 4096);
  const auto before = dir.content();
  const std::string sentence = broken([&] { Cache::open(dir / "cache.db", Cache::Mode::create); });
  CHECK(says(sentence, (dir / "cache.db").string() + " is damaged"));
  CHECK(dir.content() == before);
}

TEST_CASE("overwritten pages are found by check, and never crash a reader") {
  const TempDir dir;
  const std::int64_t id = fill(dir / "cache.db");
  const std::string sound = read_file(dir / "cache.db");
  int found = 0;
  const std::size_t pages = sound.size() / 4096;
  for (std::size_t page = 1; page < pages; ++page) {
    std::string bytes = sound;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(page * 4096), 4096, '\xA5');
    write_file(dir / "cache.db", bytes);
    try {
      Cache cache = Cache::open(dir / "cache.db", Cache::Mode::read_only);
      found += check_cache(cache).empty() ? 0 : 1;
      cache.trials.of(id);
      cache.winners.find(id);
    } catch (const moetune::BrokenEnvironment& damage) {
      CHECK(says(damage.what(), (dir / "cache.db").string()));
      ++found;
    }
  }
  CHECK(static_cast<std::size_t>(found) >= pages - 2);
}

TEST_CASE("a folder, a pipe, a missing file and an empty path are told apart") {
  const TempDir dir;
  CHECK(says(broken([&] { Cache::open(dir.path(), Cache::Mode::create); }), "is a folder, not a cache file"));
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  CHECK(says(broken([&] { Cache::open(dir / "pipe", Cache::Mode::create); }), "is not a regular file"));
  CHECK_THROWS_WITH_AS(Cache::open(dir / "none.db", Cache::Mode::read_only),
                       ("there is no cache at " + (dir / "none.db").string()).c_str(), BadInput);
  CHECK_THROWS_AS(Cache::open(dir / "none.db", Cache::Mode::read_write), BadInput);
  CHECK_THROWS_AS(Cache::open("", Cache::Mode::create), BadInput);
  CHECK_FALSE(fs::exists(dir / "none.db"));
}

TEST_CASE("a folder that cannot be made says why") {
  const TempDir dir;
  write_file(dir / "file", "");
  CHECK(says(broken([&] { Cache::open(dir / "file/below/cache.db", Cache::Mode::create); }), "Not a directory"));
  CHECK(says(broken([&] { Cache::open("/proc/moetune/cache.db", Cache::Mode::create); }), "cannot make the folder"));
}

TEST_CASE("a path may hold the characters of a URI and of SQLite's special names") {
  const TempDir dir;
  for (const char* name : {"a?b=c.db", "100%41#.db", "file:x.db", ":memory:", "with space \xc3\xa9.db"}) {
    const std::int64_t id = fill(dir / name);
    CHECK(Cache::open(dir / name, Cache::Mode::read_only).trials.of(id).size() == 500);
    CHECK(fs::exists(dir / name));
  }
}

TEST_CASE("a full disk ends in one sentence, and all that was acknowledged stays") {
  const TempDir dir;
  const fs::path disk = dir / "disk";
  const auto outcome = on_small_disk(disk, 2 << 20, [&]() -> std::string {
    const fs::path file = disk / "cache.db";
    int acknowledged = 0;
    std::int64_t id = 0;
    std::string sentence;
    {
      Cache cache = Cache::open(file, Cache::Mode::create);
      id = cache.workloads.id(workload_key());
      sentence = broken([&] {
        for (int i = 0; i < 1000; ++i) {
          cache.trials.put(id, trial(i));
          acknowledged = i + 1;
          cache.builds.put(std::to_string(i), {"ok", "{}", "", random_bytes(50'000, static_cast<std::uint64_t>(i))});
        }
      });
      if (!says(sentence, "no space left for " + file.string())) return "said: " + sentence;
      if (cache.trials.of(id).size() != static_cast<std::size_t>(acknowledged)) return "lost trials at once";
    }
    const Cache again = Cache::open(file, Cache::Mode::read_only);
    if (acknowledged < 5 || again.trials.of(id).size() != static_cast<std::size_t>(acknowledged)) return "lost trials";
    return check_cache(again).empty() ? "" : check_cache(again)[0].what;
  });
  if (outcome) {
    CHECK(*outcome == "");
  } else {
    MESSAGE("skipped: this machine does not let a test mount a tmpfs");
  }
}

TEST_CASE("a disk too full for a new cache says so") {
  const TempDir dir;
  const auto outcome = on_small_disk(dir / "disk", 32 << 10, [&]() -> std::string {
    write_file(dir / "disk/other", std::string(24 << 10, 'x'));
    return broken([&] { Cache::open(dir / "disk/cache.db", Cache::Mode::create); });
  });
  if (outcome) {
    CHECK(says(*outcome, "no space left for " + (dir / "disk/cache.db").string()));
  } else {
    MESSAGE("skipped: this machine does not let a test mount a tmpfs");
  }
}

TEST_CASE("a read-only disk: no writer, but every reader") {
  const TempDir dir;
  const fs::path file = dir / "disk/cache.db";
  const auto outcome = on_small_disk(dir / "disk", 32 << 20, [&]() -> std::string {
    const std::int64_t id = fill(file);
    if (!make_read_only(dir / "disk")) return "cannot remount";
    const std::string writer = broken([&] { Cache::open(file, Cache::Mode::create); });
    if (!says(writer, file.string() + " is read-only")) return "writer: " + writer;
    const std::string maker = broken([&] { Cache::open(dir / "disk/new.db", Cache::Mode::create); });
    if (!says(maker, "cannot open " + (dir / "disk/new.db").string() + ": Read-only file system"))
      return "maker: " + maker;
    Cache reader = Cache::open(file, Cache::Mode::read_only);
    if (reader.trials.of(id).size() != 500 || !reader.winners.find(id) || !reader.builds.find("d1"))
      return "reader lacks records";
    return "";
  });
  if (outcome) {
    CHECK(*outcome == "");
  } else {
    MESSAGE("skipped: this machine does not let a test mount a tmpfs");
  }
}
