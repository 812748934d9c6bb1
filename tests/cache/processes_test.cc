// Several processes on one file: killed writers, two writers, readers beside a writer.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

#include "cache/cache.h"
#include "cache/check.h"
#include "cache/file/database.h"
#include "tests/cache/support.h"
#include "tests/within_a_while.h"

using moetune::Cache;
using moetune::Database;
using moetune::testing::within_a_while;
using namespace cache_test;
using std::chrono::milliseconds;

namespace {

// One end writes numbers, the other reads them; made before the fork.
class Pipe {
 public:
  Pipe() { REQUIRE(::pipe(ends_) == 0); }
  ~Pipe() {
    close_writer();
    ::close(ends_[0]);
  }
  Pipe(const Pipe&) = delete;

  void write(int number) {
    if (::write(ends_[1], &number, sizeof number) != sizeof number) throw std::runtime_error("pipe");
  }
  bool read(int& number) { return ::read(ends_[0], &number, sizeof number) == sizeof number; }
  void close_writer() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  int ends_[2];
};

// Puts trials first, first+1, ... until killed, and tells `acknowledged` each that was committed.
void write_forever(const fs::path& file, int first, Pipe& acknowledged) {
  Cache cache = Cache::open(file, Cache::Mode::create);
  const std::int64_t id = cache.workloads.id(workload_key());
  for (int i = first;; ++i) {
    cache.trials.put(id, trial(i));
    acknowledged.write(i);
    if (i % 7 == 0) cache.winners.put(id, winner(i));
    if (i % 5 == 0) cache.builds.put(std::to_string(i % 40), {"ok", "{}", "", random_bytes(30'000, 1)});
  }
}

std::size_t trial_count(const fs::path& file) {
  const Cache cache = Cache::open(file, Cache::Mode::read_write);
  const auto id = cache.workloads.find(workload_key());
  return id ? cache.trials.of(*id).size() : 0;
}

}  // namespace

TEST_CASE("a writer killed twenty times in mid-write loses no acknowledged trial") {
  const TempDir dir;
  const fs::path file = dir / "cache.db";
  std::mt19937 random(1);
  int acknowledged = -1;
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    const int first = fs::exists(file) ? static_cast<int>(trial_count(file)) : 0;
    Pipe pipe;
    const pid_t writer = start([&] { write_forever(file, first, pipe); });
    pipe.close_writer();
    int number = 0;
    for (int word = 0; word < 6; ++word) REQUIRE(pipe.read(number));  // it is under way
    acknowledged = number;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    REQUIRE(::kill(writer, SIGKILL) == 0);
    REQUIRE(finish(writer) == -1);
    while (pipe.read(number)) acknowledged = number;

    const Cache cache = Cache::open(file, Cache::Mode::read_write);
    const std::int64_t id = cache.workloads.find(workload_key()).value();
    const auto trials = cache.trials.of(id);
    // The last commit may have landed with its word still unsaid.
    REQUIRE(static_cast<int>(trials.size()) >= acknowledged + 1);
    REQUIRE(static_cast<int>(trials.size()) <= acknowledged + 2);
    for (std::size_t i = 0; i < trials.size(); ++i) REQUIRE(trials[i].config == trial(static_cast<int>(i)).config);
    REQUIRE(check_cache(cache).empty());
    if (const auto best = cache.winners.find(id)) REQUIRE(best->plan.find(best->config) != std::string::npos);
  }
  CHECK(acknowledged > 100);
}

TEST_CASE("a process killed while it makes the file leaves one that opens") {
  const auto makes = [](const TempDir& dir) {
    return start([&dir] { Cache::open(dir / "cache.db", Cache::Mode::create); });
  };
  const auto begin = std::chrono::steady_clock::now();
  const TempDir first;
  REQUIRE(finish(makes(first)) == 0);
  const auto whole = std::chrono::steady_clock::now() - begin;
  for (int round = 0; round < 20; ++round) {
    const TempDir dir;
    const pid_t maker = makes(dir);
    std::this_thread::sleep_for(whole * round / 20);
    ::kill(maker, SIGKILL);
    finish(maker);
    Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
    cache.trials.put(cache.workloads.id(workload_key()), trial(1));
    CHECK(check_cache(cache).empty());
  }
}

TEST_CASE("two processes put 500 trials each into one new file and lose none") {
  const TempDir dir;
  const auto put = [&](int first) {
    return start([&, first] {
      Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
      const std::int64_t id = cache.workloads.id(workload_key());
      for (int i = first; i < first + 500; ++i) {
        cache.trials.put(id, trial(i));
        if (i % 50 == 0) cache.builds.put(std::to_string(i), {"ok", "{}", "", random_bytes(1000, 1)});
      }
    });
  };
  const pid_t one = put(0), two = put(500);
  CHECK(finish(one) == 0);
  CHECK(finish(two) == 0);
  const Cache cache = Cache::open(dir / "cache.db", Cache::Mode::read_only);
  REQUIRE(cache.workloads.all().size() == 1);
  std::set<std::string> configs;
  for (const auto& record : cache.trials.of(cache.workloads.all()[0].id)) configs.insert(record.config);
  CHECK(configs.size() == 1000);
  CHECK(summary_of(cache).builds == 20);
  CHECK(check_cache(cache).empty());
}

TEST_CASE("a reader beside a writer always sees a whole state, never an older one than before") {
  const TempDir dir;
  constexpr int kTrials = 1500;
  const pid_t writer = start([&] {
    Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
    const std::int64_t id = cache.workloads.id(workload_key());
    for (int i = 0; i < kTrials; ++i) {
      cache.trials.put(id, trial(i));
      if (i % 3 == 0) cache.winners.put(id, winner(i % 2));
      // However loaded the machine is, the reader sees a part.
      if (i == kTrials / 2) within_a_while([&] { return fs::exists(dir / "a part was seen"); });
    }
  });
  REQUIRE(within_a_while([&] { return fs::exists(dir / "cache.db"); }));
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  const std::int64_t id = cache.workloads.id(workload_key());
  std::size_t seen = 0, partial_views = 0;
  while (seen < kTrials) {
    const auto trials = cache.trials.of(id);
    REQUIRE(trials.size() >= seen);
    for (std::size_t i = seen; i < trials.size(); ++i) {
      REQUIRE(trials[i].config == trial(static_cast<int>(i)).config);
    }
    partial_views += trials.size() > seen && trials.size() < kTrials ? 1 : 0;
    seen = trials.size();
    if (partial_views > 0) std::ofstream(dir / "a part was seen");
    if (const auto best = cache.winners.find(id))
      REQUIRE(best->cubin == winner(best->config == "tile=1" ? 1 : 0).cubin);
    int status = 0;
    const bool gone = seen < kTrials && ::waitpid(writer, &status, WNOHANG) == writer;
    REQUIRE_FALSE((gone && cache.trials.of(id).size() < kTrials));
    if (gone) break;
  }
  CHECK(partial_views > 0);
  int status = 0;
  ::waitpid(writer, &status, 0);
}

TEST_CASE("a reader does not wait for the lock of a writer, and another writer waits no longer than told") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create, {.busy_timeout = milliseconds(100)});
  const std::int64_t id = cache.workloads.id(workload_key());
  cache.trials.put(id, trial(1));
  const Database holder(dir / "cache.db", Database::Access::read_write, milliseconds(100));
  const moetune::WriteTransaction lock(holder);
  CHECK(cache.trials.of(id).size() == 1);
  CHECK(Cache::open(dir / "cache.db", Cache::Mode::read_only).trials.of(id).size() == 1);
  CHECK(broken([&] { cache.trials.put(id, trial(2)); }).find("held " + (dir / "cache.db").string() + " locked") !=
        std::string::npos);
}

TEST_CASE("opening and closing a second cache on the file drops no lock of the first") {
  const TempDir dir;
  Pipe go, result;
  // Forked before anything is open. To leave WAL needs the whole file, which the parent's connection must
  // deny.
  const pid_t child = start([&] {
    int ignored = 0;
    go.read(ignored);
    const Database database(dir / "cache.db", Database::Access::read_write, milliseconds(50));
    result.write(broken([&] { database.set_journal("delete"); }).empty() ? 0 : 1);
  });
  const Cache first = Cache::open(dir / "cache.db", Cache::Mode::create);
  REQUIRE(first.workloads.all().empty());  // it is in WAL mode now, and holds the shared lock that says so
  for (const Cache::Mode mode : {Cache::Mode::create, Cache::Mode::read_only}) Cache::open(dir / "cache.db", mode);
  go.write(1);
  int denied = 0;
  REQUIRE(result.read(denied));
  CHECK(denied == 1);
  CHECK(finish(child) == 0);
}

TEST_CASE("threads with a cache each write into one file") {
  const TempDir dir;
  Cache::open(dir / "cache.db", Cache::Mode::create);
  const auto put = [&](int first) {
    Cache cache = Cache::open(dir / "cache.db", Cache::Mode::read_write);
    const std::int64_t id = cache.workloads.id(workload_key());
    for (int i = first; i < first + 200; ++i) cache.trials.put(id, trial(i));
  };
  std::thread one(put, 0), two(put, 200);
  one.join();
  two.join();
  CHECK(trial_count(dir / "cache.db") == 400);
}
