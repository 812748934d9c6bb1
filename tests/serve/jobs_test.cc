#include "serve/client/job_client.h"
#include "serve/queue/job_queue.h"
#include "serve/run/job_request.h"
#include "tests/serve/running_service.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

// Longer than any test waits, by SlowTrials.
const Json kLong = {{"budget", 2000}, {"seed", 77}, {"finalists", 1}};

}  // namespace

TEST_CASE("a search that is submitted is run, shown and listed") {
  RunningService running;
  running.start();
  const Json job = running.submit({{"budget", 60}});
  CHECK(job["kind"] == "search");
  CHECK(job["request"]["budget"] == 60);
  const Json ended = running.ended(job["id"]);
  CHECK(ended["state"] == "done");
  CHECK(ended["exit_code"] == 0);
  CHECK(ended["result"]["kernel"] == "saxpy");
  CHECK(ended["result"]["trials"]["total"] == 60);
  CHECK(ended["error"].is_null());
  const Json list = running.get("/v1/jobs?state=done");
  REQUIRE(list["jobs"].size() == 1);
  CHECK(list["jobs"][0]["id"] == job["id"]);
  CHECK(list["next"].is_null());
  CHECK(running.get("/v1/jobs?state=queued")["jobs"].empty());
}

TEST_CASE("a job that cannot be is refused with its field, or fails with the command's exit code") {
  RunningService running;
  running.start();
  const auto refused = [&](const Json& body, const std::string& field) {
    const HttpResponse response = running.ask("POST", "/v1/jobs", body.dump());
    INFO(response.body);
    CHECK(response.status == 400);
    CHECK(Json::parse(response.body)["error"].value("field", "") == field);
  };
  refused({{"kind", "search"}, {"request", {{"budget", 0}}}}, "budget");
  refused({{"kind", "search"}, {"request", {{"budget", 1e9}}}}, "budget");
  refused({{"kind", "search"}, {"request", {{"devise", "x"}}}}, "request");
  refused({{"kind", "search"}, {"request", {{"device", "replay:/etc/passwd"}}}}, "device");
  refused({{"kind", "steal"}, {"request", Json::object()}}, "kind");
  refused({{"kind", "bench"}, {"request", Json::object()}}, "kernel");
  refused({{"kind", "search"}, {"request", Json::object()}, {"deadline_s", -1}}, "deadline_s");
  refused(
      {{"kind", "search"}, {"request", {{"kernel", "decode_attention"}, {"problem", "batch=256,context=16777216"}}}},
      "problem");
  refused({{"kind", "search"}, {"request", {{"strategy", "external:touch ran"}}}}, "strategy");
  refused({{"kind", "range"},
           {"request", {{"kernel", "router"}, {"over", "tokens=1..16"}, {"strategy", "external:touch ran"}}}},
          "strategy");
  const std::string unknown =
      running.ask("POST", "/v1/jobs", R"({"kind": "bench", "request": {"kernel": "decode_kernel", "x": 1}})").body;
  CHECK(unknown.find("kernel") != std::string::npos);
  CHECK(unknown.find("kernel, kernel") == std::string::npos);  // each name once
  const Json job = running.ended(running.submit({{"strategy", "wishful"}})["id"]);
  CHECK(job["state"] == "failed");
  CHECK(job["exit_code"] == 2);
  CHECK(job["error"]["field"] == "strategy");
  const Json verify = running.ended(running.submit({{"kernel", "decode_kernel"}}, {{"kind", "verify"}})["id"]);
  CHECK(verify["state"] == "failed");
  CHECK(verify["exit_code"] == 2);  // a recording verifies nothing
}

TEST_CASE("priorities order the queue; queued and running jobs are cancelled; deadlines end both") {
  const SlowTrials slow;
  RunningService running;
  running.start();
  const Json first = running.started(kLong);
  const Json low = running.submit({{"budget", 20}, {"seed", 2}});
  const Json high = running.submit({{"budget", 20}, {"seed", 3}}, {{"priority", 5}});
  const Json late = running.submit({{"budget", 20}, {"seed", 4}}, {{"deadline_s", 1}});
  const Json gone = running.submit({{"budget", 20}, {"seed", 5}});
  CHECK(Json::parse(running.ask("POST", "/v1/jobs/" + gone["id"].dump() + "/cancel", "{}").body)["state"] ==
        "cancelled");
  const Json missed = running.ended(late["id"]);
  CHECK(missed["state"] == "failed");
  CHECK(missed["error"]["code"] == "deadline");
  running.ask("POST", "/v1/jobs/" + first["id"].dump() + "/cancel", "{}");
  const Json ended = running.ended(first["id"]);
  CHECK(ended["state"] == "cancelled");
  CHECK(ended["result"]["interrupted"] == true);  // what it had
  CHECK(running.ended(low["id"])["state"] == "done");
  CHECK(running.ended(high["id"])["state"] == "done");
  const auto begun = [&](const Json& job) {
    const std::string text =
        running.events_until([](const std::string& events) { return events.find("\"state\":\"done\"") != events.npos; },
                             "/v1/events?job=" + job["id"].dump());
    return std::stoll(text.substr(text.rfind("id: ", text.find("\"state\":\"running\"")) + 4));
  };
  CHECK(begun(high) < begun(low));
}

TEST_CASE("what ran when the service ended goes on when it starts again") {
  auto slow = std::make_unique<SlowTrials>();
  RunningService running;
  running.start();
  Json fields = kLong;
  fields["budget"] = 400;
  const Json job = running.submit(fields);
  REQUIRE(running.measures(job["id"], 3));
  running.service.reset();
  slow.reset();
  running.start();
  const Json ended = running.ended(job["id"]);
  CHECK(ended["state"] == "done");
  CHECK(ended["result"]["trials"]["total"] == 400);
  CHECK(ended["result"]["trials"]["resumed"].get<int>() > 0);
}

TEST_CASE("a client gets the events and the result of a local search") {
  RunningService running;
  running.start();
  SearchRequest request;
  request.settings.budget = 50;
  std::size_t trials = 0, started = 0, chosen = 0;
  std::string best;
  const EventListener listener = [&](const Event& event) {
    std::visit(Overloaded{[&](const TrialEnded& ended) {
                            ++trials;
                            CHECK(ended.counts.total() == trials);
                            CHECK(ended.trial.config.text().starts_with("x="));
                          },
                          [&](const SearchStarted& search) {
                            ++started;
                            CHECK(search.legal == 2000);
                          },
                          [&](const DeviceChosen& device) {
                            ++chosen;
                            CHECK(device.device.key.name == "Test GPU");
                          },
                          [](const auto&) {}},
               event.what);
  };
  const JobClient client({.url = running.service->url(), .token = {}, .ca_file = {}});
  const FinishedJob job = client.run("search", search_fields(request), {.events = {.listener = listener}, .stop = {}});
  CHECK(trials == 50);
  CHECK(started == 1);
  CHECK(chosen == 1);
  CHECK(job.exit_code == 0);
  request.target.device = running.options.devices.front();
  request.target.cache.none = true;
  const Document local = search_document(request, search(request, {}));
  for (const char* name : {"best", "trials", "confidence", "default", "legal"})
    CHECK(Json(job.result[name]) == Json(local[name]));
}

TEST_CASE("a client that stops withdraws its job; one whose request is wrong is told as locally") {
  const SlowTrials slow;
  RunningService running;
  running.start();
  const JobClient client({.url = running.service->url(), .token = {}, .ca_file = {}});
  std::stop_source stop;
  const EventListener listener = [&](const Event& event) {
    if (std::holds_alternative<TrialEnded>(event.what)) stop.request_stop();
  };
  const FinishedJob job = client.run("search", kLong, {.events = {.listener = listener}, .stop = stop.get_token()});
  CHECK(running.ended(job.id)["state"] == "cancelled");
  CHECK(job.result["interrupted"] == true);
  CHECK_THROWS_AS(client.run("search", Json{{"strategy", "wishful"}}, {}), BadField);
  CHECK_THROWS_AS(client.run("search", Json{{"budget", 0}}, {}), BadField);
  const JobClient nobody({.url = "http://127.0.0.1:1", .token = {}, .ca_file = {}});
  CHECK_THROWS_AS(nobody.run("search", kLong, {}), BrokenEnvironment);
}

TEST_CASE("a job whose service ends in order runs again as often as need be, and one that kills it five times fails") {
  RunningService running;
  const std::filesystem::path file = running.folder / "cache.db-jobs";
  const std::string request = parse_job_request("search", {{"budget", 5U}}, {}, {}).canonical;
  const JobRecord job{.kind = "search", .request = request, .shown = "{}", .device = {}};
  // As a service of before would have left it, which ran the job so often.
  const auto ended_after = [&](int times, bool in_order) {
    std::int64_t id = 0;
    {
      JobQueue queue(file);
      id = queue.submit(job).job.id;
    }
    for (int i = 0; i < times; ++i) {
      JobQueue queue(file);
      queue.take_over();
      REQUIRE(queue.start_next("any")->id == id);
      if (in_order) queue.put_back(id);
    }
    running.start();
    Json ended = running.ended(id);
    running.service.reset();
    return ended;
  };
  CHECK(ended_after(20, true)["state"] == "done");
  CHECK(ended_after(4, false)["state"] == "done");
  const Json crasher = ended_after(5, false);
  CHECK(crasher["state"] == "failed");
  CHECK(crasher["error"]["code"] == "crashes");
}

TEST_CASE("equal open requests are one job, and who withdraws takes back its own alone, however it is sent") {
  const SlowTrials slow;
  RunningService running;
  running.start();
  const Json first = running.submit(kLong);
  const HttpResponse again =
      running.ask("POST", "/v1/jobs", Json{{"kind", "search"}, {"priority", 7}, {"request", kLong}}.dump());
  CHECK(again.status == 200);
  const Json second = Json::parse(again.body);
  CHECK(second["id"] == first["id"]);
  CHECK(second["requests"] == 2);
  CHECK(second["priority"] == 7);
  REQUIRE(running.reaches(first["id"], "running"));
  const std::string path = "/v1/jobs/" + first["id"].dump();
  const auto path_of = [&](const Json& request) { return path + "?ticket=" + request["ticket"].get<std::string>(); };
  CHECK(Json::parse(running.ask("DELETE", path_of(second)).body)["requests"] == 1);
  CHECK(running.job(first["id"])["priority"] == 0);
  for (const std::string& wrong : {path_of(second), path, path + "?ticket=", path + "?ticket=%27%27"}) {
    running.ask("DELETE", wrong);
    CHECK(running.job(first["id"])["state"] == "running");
  }
  running.restart();
  CHECK(running.ask("DELETE", path_of(second)).status == 200);
  const Json left = running.job(first["id"]);
  CHECK((left["state"] == "running" || left["state"] == "queued"));
  CHECK(left["requests"] == 1);
  running.ask("DELETE", path_of(first));
  const Json ended = running.ended(first["id"]);
  CHECK(ended["state"] == "cancelled");
  CHECK(ended["exit_code"] == 130);
}
