// What makes a night on several GPUs short: one list of them, and workers that go on after their canary.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "jobs/session/gpu_speed.h"
#include "jobs/session/session.h"
#include "kernels/registry.h"
#include "retune/device_night.h"
#include "retune/host_devices.h"
#include "retune/night.h"
#include "tests/serve/scripted_driver.h"
#include "tuner/worker/cuda_device.h"

using namespace moetune;

namespace {

// A night on a scripted GPU of decode_kernel's problems.
NightRequest night_of(const TemporaryFolder& folder, const std::vector<std::string>& problems) {
  NightRequest request;
  request.list.entries = {{.kernel = "decode_kernel"}};
  for (const std::string& problem : problems) request.list.entries.front().shapes.push_back({problem});
  request.search.settings.budget = 2;
  request.search.threads = 1;
  request.search.target.device = "cuda:0";
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
  opened->what = kernel_problem({.kernel = "decode_kernel", .problem = "elements=4096", .preset = ""});
  Session session(*std::move(opened), {.cache = cache, .threads = 1}, {});
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

TEST_CASE("what was never tuned is expected to take a search: as long as those of before, else by its trials") {
  const testing::ScriptedDriver driver("memory=4194304");
  const TemporaryFolder folder;
  KeyFinder keys("cuda:0", false, "retune");
  Ledger ledger(folder.file("ledger.json"));
  const auto expected_s = [&](std::size_t budget) {
    const NightPlan plan =
        make_plan({{"decode_kernel", "elements=1024", 1}}, keys, nullptr, ledger, {.budget = budget}, 1'800'000'000);
    CHECK(plan.items.size() == 1);
    return plan.expected_s();
  };
  CHECK(expected_s(1000) > 5 * expected_s(100));
  ledger.put(keys.find("decode_kernel", "elements=2048"), {.verdict = "improved", .at = 1, .seconds = 30});
  CHECK(expected_s(1000) == 30);
}

TEST_CASE("a member of a night searches with the worker of its canary, and keeps none if it may not begin") {
  const testing::ScriptedDriver driver("memory=4194304,devices=2,same");
  const TemporaryFolder folder;
  NightRequest request = night_of(folder, {"elements=1024"});
  std::size_t workers = 0;
  request.member = {.may_begin = [&] {
    workers = child_processes().size();
    driver.play("init=100");  // a worker from now on finds no driver
    return true;
  }};
  std::vector<std::string> names;
  const NightListener listener = [&](const Document& event) { names.push_back(event["event"]); };
  const NightResult result = run_night(request, {}, listener);
  CHECK(workers == 1);
  REQUIRE(result.reworked.size() == 1);
  CHECK(result.reworked[0]["verdict"] == "tuned");
  CHECK(names == std::vector<std::string>{"compared", "began", "ended", "night_ended"});
  CHECK(child_processes().empty());

  driver.play("memory=4194304,devices=2,same");
  request.search.target.cache.path = folder.file("other.db");
  request.member = {.may_begin = [] { return false; }};
  CHECK(run_night(request, {}, {}).reworked.empty());
  CHECK(child_processes().empty());
}

TEST_CASE("what a listener throws ends a night, and no worker outlasts it") {
  const testing::ScriptedDriver driver("memory=4194304");
  for (const char* const from : {"began", "ended"}) {
    CAPTURE(from);
    const TemporaryFolder folder;
    const NightRequest request = night_of(folder, {"elements=1024", "elements=2048"});
    const NightListener listener = [&](const Document& event) {
      if (event["event"] == from) throw std::runtime_error("the log's disk is full");
    };
    CHECK_THROWS_WITH(run_night(request, {}, listener), "the log's disk is full");
    CHECK(child_processes().empty());
  }
}

TEST_CASE("what another process holds is waited for, and left to it once that has examined it") {
  const testing::ScriptedDriver driver("memory=4194304");
  const TemporaryFolder folder;
  const NightRequest request = night_of(folder, {"elements=1024", "elements=2048"});
  NightShared shared{.request = request, .context = {}, .emit = [](const char*, const Document&) {}};
  std::optional<DeviceNight> other(std::in_place, shared);
  NightPlan plan;
  std::size_t ended = 0;
  NightRequest asked = request;
  asked.member = {.may_begin = [&] {  // planned, and not begun
    other->read_ledger();
    plan = plan_night(request, other->keys(), other->known());
    CHECK(other->hold(plan.items[0]));
    return true;
  }};
  const NightListener listener = [&](const Document& event) {
    if (event["event"] != "ended") return;
    ++ended;
    CHECK(event["problem"] == plan.items[1].point.problem);
    other->note_failure(plan.items[0]);
    other->release(plan.items[0]);
  };
  const NightResult result = run_night(asked, {}, listener);
  CHECK(ended == 1);
  CHECK(result.plan.items.size() == 2);
  CHECK(result.reworked.size() == 1);
}
