#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/cache.h"
#include "tests/cache/support.h"

using moetune::Cache;
using namespace cache_test;

namespace {}  // namespace

TEST_CASE("trials of a search that goes on in another process are never forgotten") {
  const TempDir dir;
  const fs::path file = dir / "cache.db";
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t other = start([&] {
    Cache cache = Cache::open(file, Cache::Mode::create);
    const std::int64_t id = cache.workloads.id(workload_key());
    cache.workloads.begin_search(id);
    for (int i = 0; i < 10; ++i) cache.trials.put(id, trial(i));
    if (::write(ready[1], "x", 1) != 1) return;
    for (;;) ::pause();
  });
  char signal_read = 0;
  REQUIRE(::read(ready[0], &signal_read, 1) == 1);
  ::close(ready[0]);
  ::close(ready[1]);

  Cache cache = Cache::open(file, Cache::Mode::create);
  const std::int64_t id = cache.workloads.id(workload_key());
  cache.workloads.begin_search(id);  // two searches of one workload at a time are welcome
  const std::string sentence = broken([&] { cache.trials.clear(id); });
  CHECK(says(sentence, "another search of this workload is running on " + file.string()));
  CHECK(says(sentence, "wait for it to end"));
  CHECK(cache.trials.of(id).size() == 10);
  const std::int64_t neighbour = cache.workloads.id(workload_key("batch=128"));
  CHECK(broken([&] { cache.trials.clear(neighbour); }) == "");
  CHECK(says(broken([&] { cache.workloads.forget(id); }), "another search of this workload is running"));

  REQUIRE(::kill(other, SIGKILL) == 0);
  finish(other);
  CHECK(broken([&] { cache.trials.clear(id); }) == "");
  CHECK(cache.trials.of(id).empty());
}

TEST_CASE("two caches of one process keep each other's trials, until one is closed") {
  const TempDir dir;
  Cache one = Cache::open(dir / "cache.db", Cache::Mode::create);
  const std::int64_t id = one.workloads.id(workload_key());
  one.workloads.begin_search(id);
  one.trials.put(id, trial(1));
  {
    Cache two = Cache::open(dir / "cache.db", Cache::Mode::create);
    two.workloads.begin_search(id);
    CHECK(says(broken([&] { one.trials.clear(id); }), "is running"));
    CHECK(says(broken([&] { two.trials.clear(id); }), "is running"));
    // One that was never at the file before closes it again: the locks of the first stay.
    { Cache::open(dir / "cache.db", Cache::Mode::create).workloads.find(workload_key()); }
    CHECK(says(broken([&] { two.trials.clear(id); }), "is running"));
  }
  CHECK(broken([&] { one.trials.clear(id); }) == "");
  Cache three = Cache::open(dir / "cache.db", Cache::Mode::create);
  CHECK(says(broken([&] { three.trials.clear(id); }), "is running"));  // `one` goes on after its own clearing
}

TEST_CASE("a search that has ended holds nothing, though a child was forked meanwhile") {
  const TempDir dir;
  const fs::path file = dir / "cache.db";
  pid_t child = -1;
  {
    Cache ended = Cache::open(file, Cache::Mode::create);
    ended.workloads.begin_search(ended.workloads.id(workload_key()));
    child = start([] {  // shares every open file, as one that is to become a worker does for a moment
      for (;;) ::pause();
    });
  }
  Cache cache = Cache::open(file, Cache::Mode::create);
  const std::int64_t id = cache.workloads.id(workload_key());
  cache.workloads.begin_search(id);
  CHECK(broken([&] { cache.trials.clear(id); }) == "");
  REQUIRE(::kill(child, SIGKILL) == 0);
  finish(child);
}
