#include "cache/gc.h"

#include "cache/check.h"
#include "tests/cache/support.h"

using namespace cache_test;
using namespace moetune;

namespace {

// A cache with five builds of 100 kB that do not compress, the first the longest unused, and two workloads of twenty
// trials and a winner each.
struct Filled {
  TempDir folder;
  fs::path file = folder / "cache.db";
  Cache cache = Cache::open(file, Cache::Mode::create);
  std::int64_t kept = cache.workloads.id(workload_key("batch=1")),
               orphaned = cache.workloads.id(workload_key("batch=2"));

  Filled() {
    for (int i = 0; i < 5; ++i) cache.builds.put(name(i), {"ok", "{}", "", random_bytes(100'000, i + 1u)});
    for (const std::int64_t workload : {kept, orphaned}) {
      for (int i = 0; i < 20; ++i) cache.trials.put(workload, trial(i));
      cache.winners.put(workload, winner(static_cast<int>(workload)));
    }
  }
  static std::string name(int build) { return "build " + std::to_string(build); }
  GcRequest request(std::int64_t keep_build_bytes) const {
    return {.keep_build_bytes = keep_build_bytes,
            .is_orphaned = [id = orphaned](const Workload& workload) { return workload.id == id; }};
  }
};

}  // namespace

TEST_CASE("builds that were not used for longest and orphaned trials go, winners stay, and the file shrinks") {
  Filled filled;
  filled.cache.builds.find(Filled::name(0));  // used again
  const GcResult done = collect_garbage(filled.cache, filled.request(250'000));
  CHECK(done.file_bytes_after == summary_of(filled.cache).file_bytes);
  CHECK(done.builds == 3);
  CHECK(done.build_bytes >= 300'000);
  CHECK(done.trials == 20);
  CHECK(done.trials_from == 1);
  CHECK(done.busy == 0);
  CHECK(filled.cache.builds.find(Filled::name(0)));
  CHECK(filled.cache.builds.find(Filled::name(4)));
  CHECK_FALSE(filled.cache.builds.find(Filled::name(1)));
  CHECK(filled.cache.trials.of(filled.kept).size() == 20);
  CHECK(filled.cache.trials.of(filled.orphaned).empty());
  CHECK(filled.cache.winners.find(filled.kept));
  CHECK(filled.cache.winners.find(filled.orphaned));
  CHECK(check_cache(filled.cache).empty());
  CHECK(done.file_bytes_after < done.file_bytes_before - 290'000);
  const GcResult again = collect_garbage(filled.cache, filled.request(250'000));
  CHECK(again.builds + again.trials == 0);
}

TEST_CASE("a size limit takes as many builds as it must, and never a winner") {
  Filled filled;
  GcRequest request = filled.request(1'000'000);
  request.max_file_bytes = 400'000;
  const GcResult done = collect_garbage(filled.cache, request);
  CHECK(done.builds > 0);
  CHECK(done.builds < 5);
  CHECK(done.file_bytes_after <= 400'000);
  CHECK(filled.cache.builds.find(Filled::name(4)));
  request.max_file_bytes = 1;
  CHECK(collect_garbage(filled.cache, request).file_bytes_after > 1);
  CHECK(summary_of(filled.cache).builds == 0);
  CHECK(filled.cache.winners.find(filled.kept));
}

TEST_CASE("a dry run counts what a run removes, and changes nothing") {
  for (const std::int64_t limit : {10'000'000, 430'000}) {
    Filled filled;
    GcRequest request = filled.request(450'000);
    request.max_file_bytes = limit;
    request.dry_run = true;
    GcResult planned;
    {
      Cache reader = Cache::open(filled.file, Cache::Mode::read_only);
      planned = collect_garbage(reader, request);
    }
    CHECK(summary_of(filled.cache).builds == 5);
    CHECK(filled.cache.trials.of(filled.orphaned).size() == 20);
    request.dry_run = false;
    const GcResult done = collect_garbage(filled.cache, request);
    CHECK(planned.builds == done.builds);
    CHECK(planned.build_bytes == done.build_bytes);
    CHECK(planned.trials == done.trials);
    CHECK(planned.file_bytes_before == done.file_bytes_before);
    CHECK(std::abs(planned.file_bytes_after - done.file_bytes_after) < 150'000);
  }
}

TEST_CASE("trials that a search is working on are left alone") {
  Filled filled;
  Cache searching = Cache::open(filled.file, Cache::Mode::read_write);
  searching.workloads.begin_search(filled.orphaned);
  const GcResult done = collect_garbage(filled.cache, filled.request(0));
  CHECK(done.busy == 1);
  CHECK(done.trials == 0);
  CHECK(filled.cache.trials.of(filled.orphaned).size() == 20);
}
