// A missed shape that a client asks for too, and what is left of that once the client has withdrawn.
#include <ctime>

#include "cache/file/database.h"
#include "serve/queue/job_queue.h"
#include "tests/serve/running_service.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

const JobOutcome kTakenBack{.state = JobState::cancelled, .result = {}, .error = "{}", .exit_code = 130};
const JobRecord kMissed{.kind = "search",
                        .request = R"({"kernel":"decode_kernel"})",
                        .shown = {},
                        .device = {},
                        .priority = -10,
                        .weight = 3,
                        .quiet = true,
                        .deadline = 5'000'000'000};

JobRecord asked_for(std::int64_t priority, std::int64_t deadline) {
  JobRecord job = kMissed;
  job.priority = priority;
  job.weight = 0;
  job.quiet = false;
  job.deadline = deadline;
  return job;
}

}  // namespace

TEST_CASE("a miss is as quiet and as late as before once the client that joined it withdraws") {
  const RunningService unused;  // its folder
  JobQueue queue(unused.folder / "jobs");
  const std::int64_t id = queue.submit(kMissed).job.id;
  REQUIRE(queue.start_next("any"));
  const std::int64_t later = static_cast<std::int64_t>(std::time(nullptr)) + 3600;
  REQUIRE(queue.put_off(id, later)->not_before == later);
  CHECK_FALSE(queue.start_next("any"));
  CHECK_FALSE(queue.has_put_off_due(later - 1));
  CHECK(queue.has_put_off_due(later));
  CHECK(queue.submit(kMissed).job.not_before == later);
  const JobQueue::Submitted first = queue.submit(asked_for(5, 6'000'000'000)),
                            second = queue.submit(asked_for(2, 0));
  CHECK(second.job.id == id);
  CHECK(second.job.priority == 5);
  CHECK(second.job.deadline == 0);
  CHECK(second.job.not_before == 0);
  CHECK_FALSE(second.job.quiet);
  CHECK(queue.submit(kMissed).job.requests == 3);  // all posts of a miss are one

  JobRecord left = queue.withdraw(id, first.ticket, kTakenBack).job.value();
  CHECK(left.priority == 2);
  CHECK_FALSE(left.quiet);
  CHECK_FALSE(queue.withdraw(id, "", kTakenBack).withdrawn);  // names nobody
  const JobQueue::Ending ending = queue.withdraw(id, second.ticket, kTakenBack);
  CHECK(ending.withdrawn);
  CHECK_FALSE(ending.ended);
  left = ending.job.value();
  CHECK(left.state == JobState::queued);
  CHECK(left.requests == 1);
  CHECK(left.weight == 9);
  CHECK(left.quiet);
  CHECK(left.priority == -10);
  CHECK(left.deadline == 5'000'000'000);
  CHECK(left.not_before == later);
  CHECK_FALSE(queue.start_next("any"));
  for (const std::string& ticket : {first.ticket, second.ticket, std::string()})
    CHECK_FALSE(queue.withdraw(id, ticket, kTakenBack).withdrawn);  // sent again, it ends no miss

  queue.submit(asked_for(0, 0));
  CHECK(queue.start_next("any")->id == id);  // somebody waits again
  CHECK(queue.put_off(id, later)->not_before == 0);
  CHECK(queue.start_next("any")->starts == 1);  // put off is no crash
}

TEST_CASE("a job of a missed shape alone has no ticket, and a DELETE says so") {
  const SlowTrials slow;
  RunningService running;
  running.start();
  running.started({{"budget", 2000}, {"seed", 9}});
  const Json misses = {
      {"misses", {{{"kernel", "decode_kernel"}, {"problem", "elements=1024"}, {"count", 5}}}}};
  const std::string said =
      "?ticket= says whose request to take back, as the answer to its POST has it; POST /v1/jobs/2/cancel ends the "
      "job for all.";
  for (int posts = 0; posts < 2; ++posts) {
    REQUIRE(running.ask("POST", "/v1/misses", misses.dump()).status == 202);
    const HttpResponse refused = running.ask("DELETE", "/v1/jobs/2");
    CHECK(refused.status == 400);
    CHECK(Json::parse(refused.body)["error"]["message"] == said);
  }
  const Json joined =
      running.submit({{"kernel", "decode_kernel"}, {"problem", "elements=1024"}}, {{"priority", 7}});
  REQUIRE(joined["id"] == 2);
  CHECK(joined["priority"] == 7);
  const std::string path = "/v1/jobs/2?ticket=" + joined["ticket"].get<std::string>();
  for (int times = 0; times < 2; ++times) {
    const HttpResponse withdrawn = running.ask("DELETE", path);
    CHECK(withdrawn.status == 200);
    CHECK(Json::parse(withdrawn.body)["priority"] == -10);
    CHECK(Json::parse(withdrawn.body)["state"] == "queued");
  }
}
