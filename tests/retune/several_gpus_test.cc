// What makes a night on several GPUs short: one list of them, workers that go on, and threads that these live on.
#include <doctest/doctest.h>

#include <stdexcept>

#include "jobs/gpu_speed.h"
#include "jobs/session.h"
#include "kernels/registry.h"
#include "retune/host_devices.h"
#include "retune/lane.h"
#include "retune/night.h"
#include "tests/serve/scripted_driver.h"
#include "tuner/worker/cuda_device.h"

using namespace moetune;

TEST_CASE("a lane does its work in order on one thread, and what it throws is the future's") {
  std::vector<std::thread::id> threads;
  std::vector<int> order;
  {
    Lane lane;
    lane.run([&] {
      threads.push_back(std::this_thread::get_id());
      order.push_back(1);
    });
    std::future<void> failed = lane.run([] { throw std::runtime_error("it fails"); });
    lane.run([&] {
      threads.push_back(std::this_thread::get_id());
      order.push_back(2);
    });
    CHECK_THROWS_WITH(failed.get(), "it fails");
  }
  CHECK(order == std::vector<int>{1, 2});  // the end waits for all
  CHECK(threads.at(0) == threads.at(1));
  CHECK(threads.at(0) != std::this_thread::get_id());
}

TEST_CASE("what was opened to compare a GPU goes on with its worker, for another problem") {
  const testing::ScriptedDriver driver("memory=4194304,devices=2,same");
  const TemporaryFolder folder;
  const CacheChoice cache{.path = folder.file("c.db")};
  std::optional<DeviceChoice> opened;
  CHECK(gpu_speed("cuda:1", cache, {}, &opened).value_or(0) > 0);
  REQUIRE(opened);
  const auto* const device = dynamic_cast<const CudaDevice*>(opened->device.get());
  REQUIRE(device != nullptr);
  const pid_t worker = device->worker_pid();
  CHECK(worker > 0);
  Session session(choose_opened(*std::move(opened),
                                {.kernel = "decode_kernel", .problem = "elements=4096", .preset = ""}),
                  {.cache = cache, .threads = 1}, {});
  session.device().open(*session.kernel(), session.problem(), 1);
  CHECK(session.device().canary());
  CHECK(session.info().id == "cuda:1");
  CHECK(session.key().problem.starts_with("elements=4096,"));
  CHECK(device->worker_pid() == worker);
  CHECK(device->restarts() == 0);
}

TEST_CASE("a list of GPUs comes with what was found, so that none is looked for again") {
  const testing::ScriptedDriver driver("memory=4194304,devices=2,same");
  const std::vector<NightDevice> devices = night_devices("all");
  REQUIRE(devices.size() == 2);
  REQUIRE(devices[1].gpu);
  CHECK(devices[1].gpu->id == "cuda:1");
  CHECK(night_devices("cuda:1,cuda:0")[0].gpu->uuid == devices[1].gpu->uuid);
  driver.play("init=100");  // no driver any more
  KeyFinder keys(*devices[1].gpu, false, "retune");
  CHECK(keys.device() == "cuda:1");
  CHECK(keys.find("decode_kernel", "elements=1024").hardware.text() == devices[1].gpu->key.text());
}

TEST_CASE("of equal value the longest workloads come first, and value comes before length") {
  NightPlan plan;
  plan.items.resize(4);
  const double values[] = {1, 1, 2, 1};
  const std::uint64_t lengths[] = {10, 30, 5, 20};
  for (std::size_t i = 0; i < 4; ++i) {
    plan.items[i].value = values[i];
    plan.items[i].length_ms = lengths[i];
  }
  sort_items(plan);
  std::vector<std::uint64_t> order;
  for (const PlanItem& item : plan.items) order.push_back(item.length_ms);
  CHECK(order == std::vector<std::uint64_t>{5, 30, 20, 10});
}

TEST_CASE("a stop while GPUs are compared is no GPU's fault, and ends the night") {
  const testing::ScriptedDriver driver("memory=4194304,devices=2,same");
  const TemporaryFolder folder;
  NightRequest request;
  request.list.entries = {{.kernel = "decode_kernel", .shapes = {{"elements=1024"}}}};
  request.search.target.device = "all";
  request.search.target.cache.path = folder.file("night.db");
  std::stop_source stop;
  stop.request_stop();
  const NightResult result = run_night(request, {.stop = stop.get_token()}, {}, {});
  CHECK(result.interrupted);
  CHECK(result.left_out_devices.empty());
  CHECK(result.reworked.empty());
  CHECK(result.devices.size() == 2);
}

TEST_CASE("the first search of a GPU needs no worker but that of its canary") {
  const testing::ScriptedDriver driver("memory=4194304,devices=2,same");
  const TemporaryFolder folder;
  NightRequest request;
  request.list.entries = {{.kernel = "decode_kernel", .shapes = {{"elements=1024"}}}};
  request.search.settings.budget = 2;
  request.search.threads = 1;
  request.search.target.device = "all";
  request.search.target.cache.path = folder.file("night.db");
  const NightListener listener = [&](const Document& event) {
    if (event["event"] == "planned") driver.play("init=100");  // a worker from now on finds no driver
  };
  const NightResult result = run_night(request, {}, listener, {});
  REQUIRE(result.reworked.size() == 1);
  INFO(result.reworked[0].result.reason);
  CHECK(result.reworked[0].result.verdict == ReworkVerdict::tuned);
}

TEST_CASE("a night says how long each of its GPUs took for what, the longest workload first") {
  const testing::ScriptedDriver driver("memory=4194304,devices=2,same");
  const TemporaryFolder folder;
  NightRequest request;
  request.list.entries = {
      {.kernel = "decode_kernel",
       .shapes = {{"elements=1024"}, {"elements=2048"}, {"elements=32768"}, {"elements=4096"}}}};
  request.search.settings.budget = 2;
  request.search.threads = 1;
  request.search.target.device = "all";
  request.search.target.cache.path = folder.file("night.db");
  request.plan.budget = 20'000;  // so that lengths differ by whole milliseconds
  const NightResult result = run_night(request, {}, {}, {});
  CHECK(result.count(ReworkVerdict::tuned) == 4);
  CHECK(result.plan.items.front().point.problem.starts_with("elements=32768,"));
  const NightTimes& times = result.times;
  CHECK(times.opened_to > 0);
  CHECK(times.opened_to < times.compared_to);
  CHECK(times.compared_to < times.planned_to);
  REQUIRE(times.devices.size() == 2);
  double searched = 0;
  for (const DeviceTimes& one : times.devices) {
    CHECK(one.canary_s > 0);
    CHECK(one.searched_from >= times.planned_to);
    CHECK(one.searched_from + one.searched_s <= one.searched_to + 1e-6);
    CHECK(std::max(one.searched_to, one.checked_to) <= times.ended);
    searched += one.searched_s;
  }
  double reworked = 0;
  for (const Reworked& one : result.reworked) reworked += one.seconds;
  CHECK(searched >= reworked);
  const Document document = night_document(result)["times"];
  CHECK(document["devices"][1]["device"] == "cuda:1");
  CHECK(document["ended_s"].get<double>() == times.ended);
}
