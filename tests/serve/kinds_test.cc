// Jobs of every kind: what a recording can do on recordings, the rest on the scripted GPU of tests/fake_cuda.
#include <algorithm>

#include "serve/client/job_client.h"
#include "serve/run/job_request.h"
#include "tests/jobs/made_up_range.h"
#include "tests/sanitized.h"
#include "tests/serve/running_service.h"
#include "tests/serve/scripted_driver.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

const Json kList = {{"moetune_workloads", 1},
                    {"workloads",
                     {{{"kernel", "router"}, {"ranges", {{"tokens", "1..4096"}}}, {"weight", 3}},
                      {{"kernel", "router"}, {"shapes", {"tokens=64"}}}}}};

Json list_fields() { return {{"workloads", kList}, {"budget", 40}, {"no_compile", true}}; }

const Json kGpuProblem = {{"kernel", "decode_kernel"}, {"problem", "elements=1024"}};

Json gpu_list(const std::string& problem) {
  return {{"moetune_workloads", 1}, {"workloads", {{{"kernel", "decode_kernel"}, {"shapes", {problem}}}}}};
}

Json done(const RunningService& running, const std::string& kind, const Json& fields) {
  const Json job = running.ended(running.submit(fields, {{"kind", kind}})["id"]);
  INFO(job.dump());
  REQUIRE(job["state"] == "done");
  CHECK(job["exit_code"] == 0);
  return job["result"];
}

}  // namespace

TEST_CASE("a range, a list and a night on a folder of recordings end as the local jobs do") {
  RunningService running;
  const std::filesystem::path recordings = running.folder / "recordings";
  write_made_up_range(recordings);
  running.options.devices = {"replay:" + recordings.string()};
  running.start();
  const Json served = running.get("/v1/devices")["devices"][0];
  CHECK(served["hardware"] == Json::array({"NVIDIA H200"}));
  CHECK(served["recorded"] == true);
  CHECK(running.get("/readyz") == Json{{"status", "ready"}, {"devices", 1}, {"recorded", 1}});

  const Json range = {{"kernel", "router"}, {"over", "tokens=1..4096"}, {"budget", 40}, {"no_compile", true}};
  const Json table = done(running, "range", range);
  RangeRequest request;
  request.target = {.workload = {.kernel = "router", .problem = {}, .preset = {}},
                    .device = running.options.devices.front(),
                    .cache = {.path = (running.folder / "local.db").string()}};
  request.over = "tokens=1..4096";
  request.settings.budget = 40;
  request.settings.policy.timing = Timing::chained;
  request.no_compile = true;
  const Json local(range_document(request, search_range(request, {})));
  CHECK(table["cells"].size() >= 5);
  CHECK(table["cells"] == local["cells"]);
  CHECK(table["cubins"] == local["cubins"]);
  CHECK(table["certificate"] == local["certificate"]);

  const Json tuned = done(running, "tune", list_fields());
  REQUIRE(tuned["ranges"].size() == 1);
  CHECK(tuned["ranges"][0]["cells"].get<std::size_t>() == table["cells"].size());
  REQUIRE(tuned["points"].size() == 1);
  CHECK(tuned["points"][0]["state"] == "tuned");
  CHECK(done(running, "tune", list_fields())["ranges"][0]["state"] == "already_tuned");
  if (kSanitized) return;  // nights run in test_retune
  // Without compiling a shape has no winner that could be served. The table of the range lost much at unseen shapes, so
  // the first night searches on.
  REQUIRE(done(running, "retune", list_fields())["reworked"].size() == 2);
  const Json again = done(running, "retune", list_fields());
  REQUIRE(again["reworked"].size() == 1);
  CHECK(again["reworked"][0]["problem"].get<std::string>().starts_with("tokens=64"));

  running.service.reset();
  running.options.cache.path = (running.folder / "night.db").string();
  running.start();
  const Json night = done(running, "retune", list_fields());
  REQUIRE(night["reworked"].size() == 2);
  for (const Json& one : night["reworked"]) CHECK(one["verdict"] == "tuned");
}

TEST_CASE("what a recording cannot run fails with one sentence") {
  RunningService running;
  running.start();
  for (const char* kind : {"verify", "bench"}) {
    CAPTURE(kind);
    const Json job = running.ended(running.submit(kGpuProblem, {{"kind", kind}})["id"]);
    CHECK(job["state"] == "failed");
    CHECK(job["exit_code"] == 2);
    CHECK(job["error"]["code"] == "bad_field");
    CHECK(job["error"]["field"] == "device");
    const std::string message = job["error"]["message"];
    CHECK(message.find("a recording cannot run kernels, as " + std::string(kind) + " does") != message.npos);
    CHECK(message.find('\n') == message.npos);
  }
}

TEST_CASE("a GPU searches, verifies, benches, tunes and retunes for clients") {
  const ScriptedDriver driver("memory=8388608");
  RunningService running;
  running.options.devices = {"cuda:0"};
  running.options.threads = 1;
  running.start();
  const Json missing = running.ended(running.submit(kGpuProblem, {{"kind", "verify"}})["id"]);
  CHECK(missing["state"] == "failed");
  CHECK(missing["error"]["code"] == "nothing_tuned");

  Json search = kGpuProblem;
  search.update({{"budget", 3}, {"strategy", "random"}, {"all_timings", true}});
  const Json found = done(running, "search", search);
  CHECK(found["trials"]["total"] == 3);
  REQUIRE(found["best"].is_object());
  CHECK(found["device"]["recorded"] == false);
  CHECK(found["timings"].size() == kTimings.size() + 1);  // what the duels gave under each, and which differ

  Json verify = kGpuProblem;
  verify["seeds"] = 2;
  const Json verified = done(running, "verify", verify);
  CHECK(verified["right"] == true);
  CHECK(verified["config"] == found["best"]["config"]);
  Json bench = kGpuProblem;
  bench["rounds"] = 3;
  const Json benched = done(running, "bench", bench);
  REQUIRE(benched["rows"].size() >= 2);
  CHECK(benched["rows"][0]["what"] == "winner");
  CHECK(benched["rows"][0]["time_us"].get<double>() > 0);

  const Json tuned = done(running, "tune", {{"workloads", gpu_list("elements=2048")}, {"budget", 2}});
  CHECK(tuned["points"][0]["state"] == "tuned");
  const Json night = done(running, "retune", {{"workloads", gpu_list("elements=4096")}, {"budget", 2}});
  REQUIRE(night["reworked"].size() == 1);
  CHECK(night["reworked"][0]["verdict"] == "tuned");
  const Json winners = running.get("/v1/winners")["winners"];
  CHECK(winners.size() == 3);
  for (const Json& winner : winners) CHECK(winner["recorded"] == false);
}

TEST_CASE("a range is refused if a cell of it is past the limits, and timing is of those that are known") {
  RunningService running;
  running.options.limits.bytes = 20e9;
  running.options.limits.points = 500;
  running.start();
  const auto field = [&](const Json& fields, const std::string& kind) {
    const HttpResponse response = running.ask("POST", "/v1/jobs", Json{{"kind", kind}, {"request", fields}}.dump());
    INFO(response.body);
    CHECK(response.status == 400);
    return Json::parse(response.body)["error"].value("field", "");
  };
  CHECK(field({{"kernel", "decode_attention"}, {"over", "batch=1..256,context=1..128k"}}, "range") == "over");
  CHECK(field({{"kernel", "decode_attention"},
               {"over", "batch=1..1073741824,context=1..1073741824,kv_heads=1..1073741824"}},
              "range") == "over");
  CHECK(field({{"kernel", "decode_attention"}}, "range") == "over");
  CHECK(field({{"over", "batch=1..4"}}, "range") == "kernel");
  CHECK(field({{"timing", "wishful"}}, "search") == "timing");
  const auto timing = [](const std::string& kind, const Json& fields) {
    return Json::parse(parse_job_request(kind, fields, {}, {}).canonical)["timing"];
  };
  CHECK(timing("search", Json::object()) == "overlapped");
  CHECK(timing("range", {{"kernel", "router"}, {"over", "tokens=1..8"}}) == "chained");
  SearchRequest alone;
  alone.settings.policy.timing = Timing::alone;
  CHECK(timing("search", search_fields(alone)) == "alone");
}

TEST_CASE("the metrics count a search while it runs, and a bench") {
  const ScriptedDriver driver("memory=8388608");
  RunningService running;
  running.options.devices = {"cuda:0"};
  running.options.threads = 1;
  running.start();
  const auto seconds = [&](const std::string& name) {
    const std::string text = running.ask("GET", "/metrics").body, line = "\n" + name;
    const std::size_t at = text.find(line);
    return at == std::string::npos ? 0.0 : std::stod(text.substr(text.find(' ', at)));
  };
  const std::string busy = "moetune_gpu_busy_seconds_total{device=\"cuda:0\"}",
                    measuring = "moetune_gpu_measuring_seconds_total{device=\"cuda:0\"}",
                    compiling = "moetune_compile_seconds_total";
  Json search = kGpuProblem;
  search.update({{"budget", 500}, {"seed", 1}});
  const Json job = running.submit(search);
  REQUIRE(running.measures(job["id"], 4));
  REQUIRE(running.job(job["id"])["state"] == "running");
  CHECK(seconds(busy) > 0);
  CHECK(seconds(measuring) > 0);
  CHECK(seconds(compiling) > 0);
  running.ask("POST", "/v1/jobs/" + job["id"].dump() + "/cancel", "{}");
  running.ended(job["id"]);
  search["budget"] = 1;
  done(running, "search", search);
  REQUIRE(running.becomes_idle());
  const double before = seconds(busy);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(seconds(busy) == before);  // idle
  Json bench = kGpuProblem;
  bench["rounds"] = 3;
  done(running, "bench", bench);
  CHECK(seconds(busy) > before);
}
