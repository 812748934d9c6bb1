#include "jobs/stored/orphans.h"

#include <doctest/doctest.h>

#include "jobs/session/kernel_files.h"
#include "kernels/registry.h"
#include "tests/temporary_folder.h"

using namespace moetune;

namespace {

std::string problem(const std::string& text) {
  const Kernel& kernel = find_kernel("decode_kernel");
  return kernel.parse(text).text();
}

// A GPU's workload of decode_kernel.
WorkloadKey key(const std::string& problem_text, const std::string& sources) {
  WorkloadKey key{"decode_kernel", problem_text, {}, sources, "nvrtc 13.0.88"};
  key.hardware.name = "NVIDIA H200";
  key.hardware.compute_capability = 90;
  return key;
}

}  // namespace

TEST_CASE(
    "trials of other templates are orphaned once today's templates have a winner, or if nothing can take "
    "them up") {
  const TemporaryFolder folder;
  Cache cache = Cache::open(folder.file("cache.db"), Cache::Mode::create);
  const std::string today = kernel_source_digest("decode_kernel"), tuned = problem("elements=1024"),
                    untuned = problem("elements=2048");
  const std::int64_t current = cache.workloads.id(key(tuned, today));
  cache.workloads.id(key(untuned, today));  // was searched, and has no winner
  WinnerRecord winner;
  winner.config = "threads=128";
  winner.plan = "{}";
  winner.cubin = {1};
  winner.time_us = 1;
  cache.winners.put(current, winner);
  WorkloadKey recorded = key(tuned, "older");
  recorded.hardware.origin = "replay:0123";
  WorkloadKey elsewhere = key(tuned, "older");
  elsewhere.hardware.name = "NVIDIA H100";
  WorkloadKey foreign = key("size=3", "older");
  foreign.kernel = "cn_pnpoly";

  const std::function<bool(const Workload&)> is_orphaned = orphan_rule(cache);
  const auto orphaned = [&](const WorkloadKey& of) { return is_orphaned(Workload{.key = of}); };
  CHECK_FALSE(orphaned(key(tuned, today)));
  CHECK(orphaned(key(tuned, "older")));
  CHECK_FALSE(orphaned(key(untuned, "older")));  // experience: nothing of today's replaces it
  CHECK(orphaned(key("elements=many", "older")));
  CHECK(orphaned(key(untuned, std::string(kRecordingMark) + "older")));
  CHECK_FALSE(orphaned(key(untuned, std::string(kRecordingMark) + today)));
  CHECK_FALSE(orphaned(recorded));
  for (WorkloadKey replayed : {key("elements=many", "older"), key(untuned, std::string(kRecordingMark) + "older")}) {
    replayed.hardware.origin = "replay:0123";
    CHECK_FALSE(orphaned(replayed));
  }
  CHECK_FALSE(orphaned(elsewhere));
  CHECK_FALSE(orphaned(foreign));
}
