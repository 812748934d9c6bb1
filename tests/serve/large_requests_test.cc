// Jobs whose requests are large: lists do not read them, and the open ones have a bound in all.
#include <algorithm>
#include <chrono>

#include "serve/queue/job_document.h"
#include "serve/queue/job_queue.h"
#include "tests/serve/running_service.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

using Clock = std::chrono::steady_clock;

const JobOutcome kWithdrawn{.state = JobState::cancelled, .result = {}, .error = "{}", .exit_code = 130};

// A list of many workloads, say: the numbers make it as slow to parse as it is long.
JobRecord large_job(int number, std::size_t bytes) {
  Json request = {{"kernel", "decode_kernel"}, {"problem", "elements=" + std::to_string(number)}};
  request["workloads"] = std::vector<int>(bytes / 2, 7);
  return {.kind = "search", .request = request.dump(), .shown = shown_of_request(request), .device = {}};
}

double seconds_of(const std::function<void()>& action) {
  double least = 1e9;
  for (int times = 0; times < 3; ++times) {
    const Clock::time_point begin = Clock::now();
    action();
    least = std::min(least, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return least;
}

}  // namespace

TEST_CASE("a list of jobs with large requests takes no longer than to show a few of them") {
  constexpr int kJobs = 20;
  RunningService running;
  {
    JobQueue queue(running.folder / "cache.db-jobs");
    for (int i = 1; i <= kJobs; ++i) {
      const std::int64_t id = queue.submit(large_job(i, 900'000)).job.id;
      queue.end(id, kWithdrawn);
    }
    for (const std::vector<JobRecord>& jobs : {queue.list({}), queue.latest(kJobs)}) {
      REQUIRE(jobs.size() == kJobs);
      CHECK(std::all_of(jobs.begin(), jobs.end(), [](const JobRecord& job) { return job.request.empty(); }));
    }
    CHECK(queue.find(1)->request.size() > 900'000);
  }
  running.start();
  const double one = seconds_of([&] { running.job(1); });
  for (const char* path : {"/v1/jobs", "/v1/ended?limit=100"}) {
    CAPTURE(path);
    Json jobs;
    CHECK(seconds_of([&] { jobs = running.get(path)["jobs"]; }) < 5 * one);
    REQUIRE(jobs.size() == kJobs);
    const Json& first = *std::min_element(
        jobs.begin(), jobs.end(), [](const Json& a, const Json& b) { return a["id"].get<int>() < b["id"].get<int>(); });
    CHECK(first["kernel"] == "decode_kernel");
    CHECK(first["problem"] == "elements=1");
    CHECK(first["over"].is_null());
  }
}
