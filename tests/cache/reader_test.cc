// Readers where a writer could not be: full disks, folders and files that cannot be written, damaged files.
// They read what can be read, and leave nothing beside the file.
#include <SQLiteCpp/SQLiteCpp.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include "base/error.h"
#include "cache/cache.h"
#include "cache/check.h"
#include "tests/cache/support.h"

using moetune::Cache;
using namespace cache_test;

namespace {

constexpr int kTrials = 300;

std::int64_t fill_for_reading(const fs::path& file) {
  Cache cache = Cache::open(file, Cache::Mode::create);
  const std::int64_t id = cache.workloads.id(workload_key());
  for (int i = 0; i < kTrials; ++i) cache.trials.put(id, trial(i));
  cache.winners.put(id, winner(1));
  return id;
}

// As a search that was killed leaves it: the trials in the log alone.
void fill_and_die(const fs::path& file) {
  const pid_t writer = start([&] {
    Cache cache = Cache::open(file, Cache::Mode::create);
    const std::int64_t id = cache.workloads.id(workload_key());
    for (int i = 0; i < 10; ++i) cache.trials.put(id, trial(i));
    ::_exit(0);
  });
  REQUIRE(finish(writer) == 0);
}

void fill_up(const fs::path& disk) {
  std::ofstream rest(disk / "rest", std::ios::binary);
  for (const std::string block(4096, 'x'); rest.write(block.data(), 4096).flush();) {
  }
}

std::size_t trials_read(const fs::path& file, std::int64_t workload) {
  return Cache::open(file, Cache::Mode::read_only).trials.of(workload).size();
}

void check_on_small_disk(const fs::path& disk, const std::function<std::string()>& body) {
  if (const auto outcome = on_small_disk(disk, 8 << 20, body)) {
    CHECK(*outcome == "");
  } else {
    MESSAGE("skipped: this machine does not let a test mount a tmpfs");
  }
}

}  // namespace

TEST_CASE("readers leave nothing beside a sound file, nor beside one that they refuse") {
  const TempDir dir;
  const fs::path file = dir / "cache.db";
  const std::int64_t id = fill_for_reading(file);
  const std::string sound = read_file(file);
  const auto is_alone = [&](const std::string& bytes) {
    return dir.content() == std::map<std::string, std::string>{{"cache.db", bytes}};
  };
  CHECK(trials_read(file, id) == kTrials);
  CHECK(check_cache(Cache::open(file, Cache::Mode::inspect)).empty());
  CHECK(is_alone(sound));

  const std::string half = sound.substr(0, sound.size() / 8192 * 4096);
  write_file(file, half);
  for (const Cache::Mode mode : {Cache::Mode::read_only, Cache::Mode::inspect}) {
    CHECK(broken([&] { Cache::open(file, mode); }).find("is damaged") != std::string::npos);
  }
  CHECK(is_alone(half));

  std::string torn = sound;  // all but the pages of the schema, which is found when rows are read
  for (std::size_t page = 4096; page < torn.size(); page += 4096) {
    if (torn.substr(page, 4096).find("CREATE TABLE") == std::string::npos) torn.replace(page, 4096, 4096, '\x5a');
  }
  write_file(file, torn);
  CHECK_FALSE(broken([&] { trials_read(file, id); }).empty());
  CHECK_FALSE(check_cache(Cache::open(file, Cache::Mode::inspect)).empty());
  CHECK(is_alone(torn));

  write_file(file, sound);
  raw_sql(file, "DROP INDEX builds_by_use");
  const std::string altered = read_file(file);
  CHECK(broken([&] { trials_read(file, id); }).find("builds_by_use is missing") != std::string::npos);
  CHECK(is_alone(altered));
}

TEST_CASE("a reader takes no log away that holds trials, nor one that somebody uses") {
  const TempDir dir;
  fill_and_die(dir / "cache.db");
  const auto before = dir.content();
  CHECK(trials_read(dir / "cache.db", 1) == 10);
  CHECK(dir.content().at("cache.db-wal") == before.at("cache.db-wal"));
  CHECK(dir.content().at("cache.db") == before.at("cache.db"));

  Cache writer = Cache::open(dir / "cache.db", Cache::Mode::create);
  CHECK(trials_read(dir / "cache.db", 1) == 10);
  CHECK(fs::exists(dir / "cache.db-shm"));
  writer.trials.put(1, trial(10));
  CHECK(trials_read(dir / "cache.db", 1) == 11);
}

TEST_CASE("a full disk: every reader, and nothing left there") {
  const TempDir dir;
  const fs::path disk = dir / "disk", file = disk / "cache.db";
  check_on_small_disk(disk, [&]() -> std::string {
    const std::int64_t id = fill_for_reading(file);
    fill_up(disk);
    if (trials_read(file, id) != kTrials) return "lost trials";
    const Cache inspected = Cache::open(file, Cache::Mode::inspect);
    if (!check_cache(inspected).empty()) return check_cache(inspected)[0].what;
    return fs::exists(disk / "cache.db-wal") || fs::exists(disk / "cache.db-shm") ? "left files" : "";
  });
}

TEST_CASE("a full disk: a killed search's log is read through its -shm, and never passed over") {
  const TempDir dir;
  const fs::path disk = dir / "disk", file = disk / "cache.db";
  check_on_small_disk(disk, [&]() -> std::string {
    fill_and_die(file);
    fill_up(disk);
    if (trials_read(file, 1) != 10) return "lost trials";
    fs::remove(disk / "cache.db-shm");
    fill_up(disk);
    const std::string sentence = broken([&] { trials_read(file, 1); });
    return sentence.find("cache.db-shm, which cannot be made: free some space") != std::string::npos
               ? ""
               : "said: " + sentence;
  });
}

TEST_CASE("a folder and a file that cannot be written: every reader") {
  const TempDir dir;
  const fs::path folder = dir / "folder", file = folder / "cache.db";
  fs::create_directories(folder);
  const std::int64_t id = fill_for_reading(file);
  fs::permissions(file, fs::perms(0444));
  fs::permissions(folder, fs::perms(0555));
  fs::permissions(dir.path(), fs::perms(0755));
  const pid_t reader = start([&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) throw std::runtime_error("cannot become nobody");
    if (trials_read(file, id) != kTrials) throw std::runtime_error("lost trials");
    if (!Cache::open(file, Cache::Mode::read_only).winners.find(id)) throw std::runtime_error("no winner");
  });
  CHECK(finish(reader) == 0);
  fs::permissions(folder, fs::perms(0755));
  CHECK(dir.content().size() == 1);
}

TEST_CASE("what a killed writer of a file without a log had not committed is undone by a writer; readers say so") {
  const TempDir dir;
  const fs::path folder = dir / "folder", file = folder / "cache.db";
  fs::create_directories(folder);
  const std::int64_t id = fill_for_reading(file);
  const pid_t killed = start([&] {
    SQLite::Database raw(file.string(), SQLite::OPEN_READWRITE);
    raw.exec("PRAGMA journal_mode = DELETE; PRAGMA cache_size = 2; PRAGMA cache_spill = 1; BEGIN IMMEDIATE");
    raw.exec("UPDATE trials SET outcome = 'crashed', message = hex(zeroblob(200))");
    ::_exit(0);
  });
  REQUIRE(finish(killed) == 0);
  REQUIRE(fs::file_size(folder / "cache.db-journal") > 0);

  const auto before = dir.content();
  for (const Cache::Mode mode : {Cache::Mode::read_only, Cache::Mode::inspect}) {
    const std::string sentence = broken([&] { Cache::open(file, mode); });
    CHECK(sentence.find("holds half of a change that was cut off") != std::string::npos);
  }
  CHECK(dir.content() == before);

  Cache::open(file, Cache::Mode::read_write);
  const Cache cache = Cache::open(file, Cache::Mode::read_only);
  REQUIRE(cache.trials.of(id).size() == kTrials);
  for (const auto& record : cache.trials.of(id)) CHECK(record.outcome != "crashed");
  CHECK(check_cache(Cache::open(file, Cache::Mode::inspect)).empty());
  CHECK_FALSE(fs::exists(folder / "cache.db-journal"));
}
