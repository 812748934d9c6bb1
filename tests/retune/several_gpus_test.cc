// What makes a night on several GPUs short: one list of them, workers that go on, and threads that these live on.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "jobs/gpu_speed.h"
#include "jobs/session.h"
#include "kernels/registry.h"
#include "retune/device_night.h"
#include "retune/host_devices.h"
#include "retune/night.h"
#include "tests/serve/scripted_driver.h"
#include "tuner/worker/cuda_device.h"

using namespace moetune;

namespace {

// A night on all scripted GPUs of decode_kernel's problems.
NightRequest night_of(const TemporaryFolder& folder, const std::vector<std::string>& problems) {
  NightRequest request;
  request.list.entries = {{.kernel = "decode_kernel"}};
  for (const std::string& problem : problems) request.list.entries.front().shapes.push_back({problem});
  request.search.settings.budget = 2;
  request.search.threads = 1;
  request.search.target.device = "all";
  request.search.target.cache.path = folder.file("night.db");
  return request;
}

// This process's, ended ones that nobody has waited for among them.
std::set<pid_t> child_processes() {
  std::set<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    const std::size_t after_name = stat.rfind(')');
    if (after_name == std::string::npos) continue;  // it has ended since
    std::istringstream rest(stat.substr(after_name + 1));
    char state = 0;
    pid_t parent = 0;
    rest >> state >> parent;
    if (parent == getpid()) children.insert(static_cast<pid_t>(std::stol(name)));
  }
  return children;
}

}  // namespace

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
  REQUIRE(opened->builder);
  CHECK_FALSE(*opened->builder);  // the session that it built through has ended
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

TEST_CASE("what a listener throws ends a night on several GPUs, whichever of their threads it leaves") {
  const testing::ScriptedDriver driver("memory=4194304,devices=2,same");
  for (const char* const from : {"began", "ended", "confirmed"}) {
    CAPTURE(from);
    const TemporaryFolder folder;
    const NightRequest request = night_of(folder, {"elements=1024", "elements=2048", "elements=4096"});
    const NightListener listener = [&](const Document& event) {
      if (event["event"] == from) throw std::runtime_error("the log's disk is full");
    };
    CHECK_THROWS_WITH(run_night(request, {}, listener, {}), "the log's disk is full");
    CHECK(child_processes().empty());
  }
}

TEST_CASE("what the caller throws for a workload that has ended ends a night on several GPUs") {
  const testing::ScriptedDriver driver("memory=4194304,devices=2,same");
  const TemporaryFolder folder;
  const NightRequest request = night_of(folder, {"elements=1024", "elements=2048", "elements=4096"});
  CHECK_THROWS_WITH(run_night(request, {}, {}, [](const Reworked&) { throw std::runtime_error("no"); }),
                    "no");
}

TEST_CASE("a GPU that is left out as slow keeps no worker") {
  const testing::ScriptedDriver driver("memory=4194304,devices=2,same,slow1=4");
  const TemporaryFolder folder;
  const NightRequest request = night_of(folder, {"elements=1024"});
  std::size_t workers = 0;
  const NightResult result = run_night(request, {},
                                       [&](const Document& event) {
                                         if (event["event"] == "device_left_out")
                                           workers = child_processes().size();
                                       },
                                       {});
  CHECK(result.left_out_devices.size() == 1);
  CHECK(workers == 1);  // the other's, which waits for its first workload
}

TEST_CASE("a stop while a second kind of GPU is compared ends a night whose first kind does not work") {
  const TemporaryFolder folder;
  const std::string gone = folder.file("gone");
  std::ofstream(gone) << "x";
  const testing::ScriptedDriver driver("memory=4194304,devices=3,alike=2,gone0=" + gone + ",gone1=" + gone);
  const NightRequest request = night_of(folder, {"elements=1024"});
  std::stop_source stop;
  const NightListener listener = [&](const Document& event) {
    if (event["event"] == "device_left_out") stop.request_stop();
  };
  const NightResult result = run_night(request, {.stop = stop.get_token()}, listener, {});
  CHECK(result.interrupted);
  CHECK(result.left_out_devices.size() == 2);
  CHECK(result.plan.items.size() == 1);
  CHECK(result.reworked.empty());
}

TEST_CASE("a worker for the next check is started once, is not tried again on a broken driver, and ends") {
  const testing::ScriptedDriver driver("memory=4194304");
  const TemporaryFolder folder;
  const NightRequest request = night_of(folder, {});
  NightShared shared{.request = request, .context = {}, .emit = [](const char*, const Document&) {}};
  const TuningPoint some{.kernel = "decode_kernel", .problem = "elements=1024"};
  DeviceNight works(shared, night_devices("cuda:0").front(), 0, 0),
      broken(shared, night_devices("cuda:0").front(), 0, 0);
  REQUIRE(child_processes().empty());
  works.prepare_confirm(some);
  const std::set<pid_t> spare = child_processes();
  CHECK(spare.size() == 1);
  works.prepare_confirm(some);
  CHECK(child_processes() == spare);
  works.end_confirms();
  CHECK(child_processes().empty());
  driver.play("init=100");
  broken.prepare_confirm(some);
  driver.play("memory=4194304");
  broken.prepare_confirm(some);
  CHECK(child_processes().empty());
}

TEST_CASE("no worker outlasts the work of a night on several GPUs") {
  const testing::ScriptedDriver driver("memory=4194304,devices=2,same");
  const TemporaryFolder folder;
  const NightRequest request = night_of(folder, {"elements=1024"});
  std::set<pid_t> left = {0};
  const NightListener listener = [&](const Document& event) {
    if (event["event"] == "night_ended") left = child_processes();
  };
  CHECK(run_night(request, {}, listener, {}).count(ReworkVerdict::tuned) == 1);
  CHECK(left.empty());
}
