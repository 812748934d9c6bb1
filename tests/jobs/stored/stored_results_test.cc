// The winner that is handed out of several, and the best of trials without one.
#include "jobs/stored/stored_results.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "base/error.h"
#include "jobs/session/session.h"
#include "jobs/stored/stored_candidate.h"
#include "kernels/registry.h"
#include "ranges/range_table.h"
#include "tests/paths.h"
#include "tests/runtime/fake_cache.h"
#include "tests/temporary_folder.h"

using namespace moetune;

TEST_CASE("of winners that other sources made the latest is handed out, and never a recording's") {
  const TemporaryFolder folder;
  Cache cache = Cache::open(folder.file("c.db"), Cache::Mode::create);
  testing::store(cache, {.problem = "batch=4,q_heads=8,kv_heads=1,context=512,page=16"});
  const Workload made = cache.workloads.all().front();
  WinnerRecord winner = cache.winners.find(made.id).value();
  const auto put = [&](const std::string& sources, const char* stored_at) {
    WorkloadKey key = made.key;
    key.source_digest = sources;
    winner.stored_at = stored_at;
    cache.winners.put(cache.workloads.id(key), winner);
  };
  put(made.key.source_digest, "2026-01-01T00:00:00Z");
  put("newer", "2026-03-01T00:00:00Z");
  put("older", "2026-02-01T00:00:00Z");
  put(std::string(kRecordingMark) + "sources", "2026-04-01T00:00:00Z");
  StoredSpaces spaces;
  WorkloadKey today = made.key;
  today.source_digest = "today's";
  const std::optional<StoredResult> found = find_winner(cache, today, spaces);
  REQUIRE(found);
  CHECK(found->workload.key.source_digest == "newer");
  CHECK(find_winner(cache, made.key, spaces)->workload.id == made.id);
}

TEST_CASE("a time that cannot be is not the best, and what was pruned is no trial") {
  const TemporaryFolder folder;
  Cache cache = Cache::open(folder.file("c.db"), Cache::Mode::create);
  const std::int64_t id = cache.workloads.id({.kernel = "another's", .problem = "n=1"});
  cache.trials.put(id, {.config = "x=1", .outcome = "ok", .time_us = 1e-9});
  cache.trials.put(id, {.config = "x=2", .outcome = "ok", .time_us = 9});
  cache.trials.put(id, {.config = "x=3", .outcome = "pruned"});
  StoredSpaces spaces;
  const StoredResult result = read_result(cache, cache.workloads.all().front(), spaces);
  CHECK(result.best_us == 9);
  CHECK(result.trials == 2);
  CHECK(result.outcomes.at("pruned") == 1);
}

TEST_CASE("a table's cubin serves if its parameters are passed as today's, and no other does") {
  setenv("MOETUNE_LIBCUDA", paths::fake_libcuda(), 1);
  setenv("MOETUNE_NVRTC", paths::fake_nvrtc(), 1);
  setenv("MOETUNE_FAKE_CUDA", "memory=67108864", 1);
  const Kernel& kernel = find_kernel("decode_attention");
  const auto problem_of = [&](const char* batch) {
    return kernel.parse(std::string("q_heads=8,kv_heads=2,head_dim=64,context=512,page=16,batch=") + batch);
  };
  const Problem problem = problem_of("4");
  RangeTable table{.ranges = "batch=4..8", .bound = 0.02, .kept = true};
  for (const char* batch : {"4", "8"})
    table.cells.push_back({problem_of(batch).text(), testing::plain_config(), 10, 12, 10});
  for (const bool is_todays : {true, false}) {
    const TemporaryFolder folder;
    StoredLaunch variant = testing::fake_launch(problem, testing::plain_config());
    if (!is_todays) variant.interface = "another's";
    Cache::open(folder.file("c.db"), Cache::Mode::create)
        .ranges.put({kernel.name(), kernel.specialization(problem).text(), find_gpu("cuda:0", "verify").key, "sources",
                     "nvrtc 13.0", Timing::overlapped},
                    {.table = table.text(), .progress = "", .variants = {variant}, .stored_at = ""});
    Session session(choose_device("cuda:0", {.kernel = kernel.name(), .problem = problem.text(), .preset = ""},
                                  {.gpu_job = "verify"}),
                    {.cache = {.path = folder.file("c.db"), .none = false}}, {});
    if (is_todays) {
      CHECK(stored_candidates(session, {}).front().cell == problem.text());
    } else {
      CHECK_THROWS_WITH_AS(stored_candidates(session, {}), doctest::Contains("lacks the cubin of"), BrokenEnvironment);
    }
  }
}
