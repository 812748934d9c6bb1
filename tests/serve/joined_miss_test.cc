// A missed shape that a client asks for too, over HTTP; serve/queue/job_queue_test.cc has what is left of it.
#include "tests/serve/running_service.h"

using namespace moetune;
using namespace moetune::testing;

TEST_CASE("a job of a missed shape alone has no ticket, and a DELETE says so") {
  const SlowTrials slow;
  RunningService running;
  running.start();
  running.started({{"budget", 2000}, {"seed", 9}});
  const Json misses = {{"misses", {{{"kernel", "decode_kernel"}, {"problem", "elements=1024"}, {"count", 5}}}}};
  const std::string said =
      "?ticket= says whose request to take back, as the answer to its POST has it; POST /v1/jobs/2/cancel ends the "
      "job for all.";
  for (int posts = 0; posts < 2; ++posts) {
    REQUIRE(running.ask("POST", "/v1/misses", misses.dump()).status == 202);
    const HttpResponse refused = running.ask("DELETE", "/v1/jobs/2");
    CHECK(refused.status == 400);
    CHECK(Json::parse(refused.body)["error"]["message"] == said);
  }
  const Json joined = running.submit({{"kernel", "decode_kernel"}, {"problem", "elements=1024"}}, {{"priority", 7}});
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
