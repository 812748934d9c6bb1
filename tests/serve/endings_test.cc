// How jobs end: what cannot be written is written later, who cancels ends nobody else's, and nothing runs too long.
#include <atomic>
#include <cstdlib>

#include "serve/queue/job_queue.h"
#include "serve/run/job_request.h"
#include "tests/serve/running_service.h"
#include "tests/serve/scripted_driver.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

const Json kEndless = {{"budget", 2000}, {"seed", 78}, {"finalists", 1}};
const Json kTwoSeconds = {{"budget", 100}, {"seed", 5}, {"finalists", 1}};  // with kPaceOfTwoSeconds
constexpr int kPaceOfTwoSeconds = 20;

std::string path_of(const Json& job) { return "/v1/jobs/" + job["id"].dump(); }
std::string delete_path(const Json& job) { return path_of(job) + "?ticket=" + job["ticket"].get<std::string>(); }

// Of the service's queue, by somebody else.
class LockedQueue {
 public:
  explicit LockedQueue(const RunningService& running)
      : database_(running.folder / "cache.db-jobs", Database::Access::read_write, std::chrono::milliseconds(10'000)) {
    database_.execute("BEGIN IMMEDIATE");
  }
  ~LockedQueue() { database_.execute("ROLLBACK"); }
  LockedQueue(const LockedQueue&) = delete;

 private:
  Database database_;
};

bool ends_unwritten(const RunningService& running) {
  const char* const words = "its end cannot be written yet";
  const auto says_so = [&](const std::string& events) { return events.find(words) != events.npos; };
  return says_so(running.events_until(says_so));
}

}  // namespace

TEST_CASE("a job that ends while the queue's file is locked ends when it is free, and others run") {
  const SlowTrials slow(kPaceOfTwoSeconds);
  RunningService running;
  running.options.jobs.patience = std::chrono::milliseconds(100);
  running.start();
  const Json job = running.started(kTwoSeconds);
  {
    const LockedQueue locked(running);
    CHECK(ends_unwritten(running));
    CHECK(running.job(job["id"])["state"] == "running");
  }
  CHECK(running.ended(job["id"])["state"] == "done");
  CHECK(running.becomes_idle());
  CHECK(running.ended(running.submit({{"budget", 5}, {"seed", 3}})["id"])["state"] == "done");
}

TEST_CASE("what has ended and cannot be written runs again at the next start") {
  const SlowTrials slow(kPaceOfTwoSeconds);
  RunningService running;
  running.options.jobs.patience = std::chrono::milliseconds(100);
  running.start();
  const Json job = running.started(kTwoSeconds);
  {
    const LockedQueue locked(running);
    CHECK(ends_unwritten(running));
    running.service.reset();  // does not wait for who has the lock
  }
  running.start();
  const Json ended = running.ended(job["id"]);
  CHECK(ended["state"] == "done");
  CHECK(ended["result"]["trials"]["resumed"] == 100);
}

TEST_CASE("a request that equals a job which is being cancelled is a job of its own") {
  const SlowTrials slow;
  RunningService running;
  running.start();
  const Json first = running.started(kEndless);
  CHECK(running.ask("DELETE", delete_path(first)).status == 200);
  const Json second = running.submit(kEndless);
  CHECK(second["id"] != first["id"]);
  CHECK(running.ended(first["id"])["state"] == "cancelled");
  CHECK(running.measures(second["id"], 3));
  CHECK(running.get(path_of(second))["state"] == "running");
}

TEST_CASE("a queue has one service: another would run again what the first one runs") {
  const SlowTrials slow;
  RunningService running;
  running.start();
  const Json job = running.started(kEndless);
  RunningService second;  // of another cache and device
  second.options.queue = running.folder / "cache.db-jobs";
  std::string refused;
  try {
    second.start();
  } catch (const BrokenEnvironment& error) {
    refused = error.what();
  }
  CHECK(refused == "another service works on the queue " + second.options.queue.string() +
                       "; stop it, or give this one a queue of its own with --queue FILE");
  CHECK(running.get(path_of(job))["state"] == "running");
  running.service.reset();
  second.start();  // it takes over what was left
  CHECK(second.get(path_of(job))["id"] == job["id"]);
}

// Its failure is a report of ThreadSanitizer's.
TEST_CASE("metrics are asked for while a service begins and ends") {
  RunningService running;
  running.start();
  const std::string url = running.service->url();
  running.options.http.port = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  const HttpRequest metrics = running.request("GET", "/metrics");
  std::atomic<int> answered{0};
  std::vector<std::jthread> clients;
  for (int i = 0; i < 3; ++i)
    clients.emplace_back([&](std::stop_token stop) {
      while (!stop.stop_requested()) {
        try {
          answered += http_request(metrics).status == 200;
        } catch (const std::exception&) {  // nobody listens, or leaves a moment later
        }
      }
    });
  for (int restarts = 0; restarts < 5; ++restarts) {
    const int before = answered;
    CHECK(within_a_while([&] { return answered > before; }));
    running.restart();
  }
}

TEST_CASE("no search is longer than --max-time, whatever its request says") {
  const SlowTrials slow;
  RunningService running;
  running.options.limits.seconds = 1;
  running.start();
  for (const Json& fields : {kEndless, Json{{"budget", 2000}, {"seed", 79}, {"time_s", 0}}}) {
    const Json job = running.submit(fields);
    CHECK(job["request"]["time_s"] == 1);
    const Json ended = running.ended(job["id"]);
    CHECK(ended["state"] == "done");
    CAPTURE(ended["result"].dump());
    CHECK(ended["result"]["trials"]["total"] < 2000);
    CHECK(ended["result"]["interrupted"] == false);
    CHECK(ended["result"]["best"].is_object());
  }
  const Json kinds[] = {
      {{"kind", "tune"}, {"request", {{"workloads", {{"moetune_workloads", 1}, {"workloads", Json::array()}}}}}},
      {{"kind", "retune"}, {"request", {{"workloads", {{"moetune_workloads", 1}, {"workloads", Json::array()}}}}}}};
  for (const Json& body : kinds) {
    const JobRequest parsed =
        parse_job_request(body["kind"], body["request"], running.options.limits, running.options.devices);
    CHECK(Json::parse(parsed.canonical)["time_s"] == 1);
  }
}

TEST_CASE("what does not end by itself is stopped after --max-time and a while") {
  const ScriptedDriver driver("memory=8388608");
  RunningService running;
  running.options.devices = {"cuda:0"};
  running.options.threads = 1;
  running.start();
  const Json problem = {{"kernel", "decode_kernel"}, {"problem", "elements=1024"}};
  Json search = problem;
  search["budget"] = 1;
  REQUIRE(running.ended(running.submit(search)["id"])["state"] == "done");
  running.service.reset();
  running.options.limits.seconds = 0.2;
  running.options.limits.grace_s = 0.3;
  running.start();
  Json bench = problem;
  bench["rounds"] = 100'000;
  const Json job = running.submit(bench, {{"kind", "bench"}});
  CHECK_FALSE(job["deadline"].is_null());
  const Json ended = running.ended(job["id"]);
  CHECK(ended["state"] == "failed");
  CHECK(ended["error"]["code"] == "max_time");
}
