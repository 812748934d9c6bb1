// Reading a file without locks, and noticing that it was changed.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "cache/cache.h"
#include "cache/file/settled_file.h"
#include "tests/cache/support.h"

using moetune::Cache;
using moetune::FileState;
using namespace cache_test;
using namespace std::chrono_literals;

namespace {

void store_winner(const fs::path& file, int number) {
  Cache cache = Cache::open(file, Cache::Mode::create);
  cache.winners.put(cache.workloads.id(workload_key(), "a family"), winner(number));
}

std::string stored_config(const Cache& cache) {
  const auto winners = cache.winners.of_family(workload_key().kernel, "a family").sound;
  return winners.size() == 1 ? winners.front().config : "none";
}

}  // namespace

TEST_CASE("a settled file is read without anything made beside it") {
  const TempDir folder;
  const fs::path file = folder / "cache.db";
  store_winner(file, 1);
  std::this_thread::sleep_for(30ms);
  {
    const Cache locked = Cache::open(file, Cache::Mode::read_only);
    CHECK(fs::exists(folder / "cache.db-shm"));  // what is spared
    CHECK(locked.is_unchanged());
  }
  const std::optional<Cache> cache = Cache::open_settled(file, 20ms);
  REQUIRE(cache);
  CHECK_FALSE(fs::exists(folder / "cache.db-shm"));
  CHECK_FALSE(fs::exists(folder / "cache.db-wal"));
  CHECK(stored_config(*cache) == winner(1).config);
  CHECK(cache->is_unchanged());
}

TEST_CASE("a file that somebody changes, or may have changed, is not read without locks") {
  const TempDir folder;
  const fs::path file = folder / "cache.db";
  store_winner(file, 1);
  CHECK_FALSE(Cache::open_settled(file, 1h));  // changed just now
  std::this_thread::sleep_for(30ms);
  REQUIRE(Cache::open_settled(file, 20ms));

  SUBCASE("a log waits beside it") {
    Cache writer = Cache::open(file, Cache::Mode::read_write);
    writer.winners.put(writer.workloads.id(workload_key(), "a family"), winner(2));
    std::this_thread::sleep_for(30ms);
    REQUIRE(fs::file_size(folder / "cache.db-wal") > 0);
    CHECK_FALSE(Cache::open_settled(file, 20ms));
    CHECK(stored_config(Cache::open(file, Cache::Mode::read_only)) == winner(2).config);
  }
  SUBCASE("a journal lies beside it") {
    std::ofstream(folder / "cache.db-journal") << "half of a change";
    CHECK_FALSE(FileState::of_settled(file, 20ms, {}));
  }
  SUBCASE("it is a link: its log would lie elsewhere") {
    fs::create_symlink(file, folder / "link.db");
    CHECK_FALSE(FileState::of_settled(folder / "link.db", 20ms, {}));
  }
  SUBCASE("it lies on a network file system") {
    REQUIRE(FileState::of_settled(file, 20ms, {}));
    CHECK_FALSE(FileState::of_settled(file, 20ms, "NFS"));
  }
  SUBCASE("whether a log waits beside it cannot be found out") {
    const fs::path longest = folder / (std::string(250, 'x') + ".db");  // with -wal more than a name may have
    fs::copy_file(file, longest);
    std::this_thread::sleep_for(30ms);
    CHECK_FALSE(FileState::of_settled(longest, 20ms, {}));
  }
  SUBCASE("it is no cache, or none is there") {
    std::ofstream(folder / "text.db") << std::string(5000, 'x');
    std::this_thread::sleep_for(30ms);
    CHECK(FileState::of_settled(folder / "text.db", 20ms, {}));
    CHECK_FALSE(Cache::open_settled(folder / "text.db", 20ms));
    CHECK_FALSE(Cache::open_settled(folder / "absent.db", 20ms));
  }
}

TEST_CASE("a change of a settled file is noticed, whatever its time says") {
  const TempDir folder;
  const fs::path file = folder / "cache.db";
  store_winner(file, 1);
  std::this_thread::sleep_for(30ms);
  const std::optional<Cache> cache = Cache::open_settled(file, 20ms);
  REQUIRE(cache);
  const fs::file_time_type written = fs::last_write_time(file);

  SUBCASE("by a writer") { store_winner(file, 2); }
  SUBCASE("by another file in its place") {
    store_winner(folder / "other.db", 2);
    fs::rename(folder / "other.db", file);
  }
  SUBCASE("by a copy that keeps times") {
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(5000) << "x";
  }
  SUBCASE("by taking it away") { fs::remove(file); }
  if (fs::exists(file)) fs::last_write_time(file, written);
  CHECK_FALSE(cache->is_unchanged());
}

TEST_CASE("times before 1970 and past 2262 are compared as they are") {
  const TempDir folder;
  const fs::path file = folder / "cache.db";
  store_winner(file, 1);
  const auto settled_when_written = [&](std::int64_t seconds) {
    const timespec times[] = {{0, UTIME_OMIT}, {seconds, 999'999'999}};
    REQUIRE(::utimensat(AT_FDCWD, file.c_str(), times, 0) == 0);
    std::this_thread::sleep_for(30ms);
    return FileState::of_settled(file, 20ms, {}).has_value();
  };
  CHECK(settled_when_written(-2'000'000'000));
  CHECK(settled_when_written(-10'000'000'000));  // before 1677, if the file system has such times
  CHECK(settled_when_written(0));
  CHECK_FALSE(settled_when_written(9'000'000'000));
  CHECK_FALSE(settled_when_written(12'000'000'000));  // past 2262, when a signed count of nanoseconds ends
  CHECK(settled_when_written(1'000'000'000));
  CHECK_FALSE(FileState::of_settled(file, std::chrono::milliseconds::max(), {}));
}
