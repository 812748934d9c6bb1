// A copy of the main file alone, made while a search writes or after it was killed: it has all but the last second, and
// says that something may be missing.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include <thread>

#include "cache/cache.h"
#include "cache/check.h"
#include "tests/cache/support.h"
#include "tests/within_a_while.h"

using moetune::Cache;
using namespace cache_test;

namespace {

// Trials in the main file alone, as a copy has them; -1 of one that was made while the file was written to.
std::int64_t copied_trials(const fs::path& file, const fs::path& copy) {
  fs::copy_file(file, copy, fs::copy_options::overwrite_existing);
  try {
    const Cache cache = Cache::open(copy, Cache::Mode::inspect);
    return check_cache(cache).empty() ? summary_of(cache).trials : -1;
  } catch (const moetune::BrokenEnvironment&) {
    return -1;
  }
}

bool lacks_log(const fs::path& file) { return Cache::open(file, Cache::Mode::inspect).lacks_log(); }

// Stores 50 trials, and then waits for its end.
pid_t start_search(const fs::path& file) {
  const pid_t child = start([&] {
    Cache cache = Cache::open(file, Cache::Mode::create);
    const std::int64_t id = cache.workloads.id(workload_key());
    cache.workloads.begin_search(id);
    for (int i = 0; i < 50; ++i) cache.trials.put(id, trial(i));
    write_file(file.string() + ".stored", "50");
    for (;;) ::pause();
  });
  REQUIRE(moetune::testing::within_a_while([&] { return fs::exists(file.string() + ".stored"); }));
  return child;
}

void kill_search(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace

TEST_CASE("a copy of the main file alone has what a search stored before the last second, and says so") {
  const TempDir dir;
  const fs::path file = dir / "a.db", copy = dir / "copy.db";
  const pid_t child = start_search(file);
  CHECK(moetune::testing::within_a_while([&] { return copied_trials(file, copy) == 50; }));
  CHECK(lacks_log(copy));
  CHECK_FALSE(lacks_log(file));
  fs::create_symlink(file, dir / "link.db");
  CHECK_FALSE(lacks_log(dir / "link.db"));
  kill_search(child);
  CHECK(copied_trials(file, copy) == 50);
  CHECK(lacks_log(copy));
  CHECK_FALSE(lacks_log(file));  // its log is beside it
  CHECK(summary_of(Cache::open(file, Cache::Mode::read_only)).trials == 50);
}

TEST_CASE("once a search has ended, or a later writer has taken up what a killed one left, nothing is missing") {
  const TempDir dir;
  const fs::path file = dir / "a.db", copy = dir / "copy.db";
  {
    Cache cache = Cache::open(file, Cache::Mode::create);
    const std::int64_t id = cache.workloads.id(workload_key());
    cache.workloads.begin_search(id);
    cache.trials.put(id, trial(1));
    fs::copy_file(file, copy);
    CHECK(lacks_log(copy));  // the mark is there before the first trial is
  }
  CHECK(copied_trials(file, copy) == 1);
  CHECK_FALSE(lacks_log(copy));

  kill_search(start_search(file));
  Cache::open(file, Cache::Mode::read_write);
  CHECK(copied_trials(file, copy) == 50);  // one of them again
  CHECK_FALSE(lacks_log(copy));
}

TEST_CASE("the mark stays while one of two searches still writes") {
  const TempDir dir;
  const fs::path file = dir / "a.db", copy = dir / "copy.db";
  const pid_t child = start_search(file);
  {
    Cache cache = Cache::open(file, Cache::Mode::read_write);
    cache.workloads.begin_search(cache.workloads.id(workload_key("batch=2")));
  }
  Cache::open(file, Cache::Mode::read_write).trials.put_calibration(h200(), "read_tb_s", 4);
  fs::copy_file(file, copy);
  CHECK(lacks_log(copy));
  kill_search(child);
}
