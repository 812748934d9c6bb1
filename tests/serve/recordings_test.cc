// A service of several recordings: a job runs on one that has what it asks for.
#include "tests/serve/running_service.h"

namespace moetune::recordings_test {
using namespace testing;

namespace {

constexpr const char* kSmall = "replay:decode_attention_h200_b8_c4096";
constexpr const char* kLarge = "replay:decode_attention_h200_b16_c4096";

Json search_of(const std::string& problem, int seed) {
  return {{"kernel", "decode_attention"}, {"problem", problem}, {"budget", 4}, {"seed", seed}, {"no_compile", true}};
}

std::string running_on(const RunningService& running, std::int64_t id) {
  const Json devices = running.get("/v1/devices");
  for (const Json& device : devices["devices"])
    if (device["job"] == id) return device["device"];
  return "";
}

}  // namespace

TEST_CASE("of several recordings each job goes to one that can serve it") {
  RunningService running;
  running.options.devices.insert(running.options.devices.end(), {kSmall, kLarge});
  running.start();
  std::vector<std::int64_t> jobs;
  for (int seed = 1; seed <= 3; ++seed) {
    jobs.push_back(running.submit(search_of("batch=8,q_heads=32,context=4096", seed))["id"]);
    jobs.push_back(running.submit(search_of("batch=16,q_heads=32,context=4096", seed))["id"]);
  }
  jobs.push_back(running.submit({{"kernel", "saxpy"}, {"budget", 5}})["id"]);
  for (const std::int64_t id : jobs) {
    const Json job = running.ended(id);
    CHECK_MESSAGE(job["state"] == "done", job.dump());
  }
}

TEST_CASE("a job that waits for its recording lets others pass, and one that nobody can serve ends with the reason") {
  const SlowTrials slow(20);
  RunningService running;
  running.options.devices = {kSmall, kLarge};
  running.start();
  Json longest = search_of("batch=8,q_heads=32,context=4096", 1);
  longest["budget"] = 2000;
  const std::int64_t first = running.submit(longest)["id"];
  REQUIRE(running.reaches(first, "running"));
  CHECK(running_on(running, first) == std::string(kSmall));
  const std::int64_t waits = running.submit(search_of("batch=8,q_heads=32,context=4096", 2))["id"];
  const std::int64_t passes = running.submit(search_of("batch=16,q_heads=32,context=4096", 1))["id"];
  CHECK(running.ended(passes)["state"] == "done");
  CHECK(running.job(waits)["state"] == "queued");
  const Json nobody = running.ended(running.submit(search_of("batch=3,q_heads=32,context=4096", 1))["id"]);
  CHECK(nobody["state"] == "failed");
  CHECK(nobody["error"]["message"].get<std::string>().find("records batch=") != std::string::npos);
  running.ask("POST", "/v1/jobs/" + std::to_string(first) + "/cancel", "{}");
  CHECK(running.ended(waits)["state"] == "done");
}

}  // namespace moetune::recordings_test
