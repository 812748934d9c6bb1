// The winner that is handed out of several, and the best of trials without one.
#include "jobs/stored/stored_results.h"

#include <doctest/doctest.h>

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
