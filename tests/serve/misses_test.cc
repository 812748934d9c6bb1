// What servers missed: it waits for a quiet GPU, fits the operator's limits, and is for hardware that is served.
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "serve/run/memory_watch.h"
#include "tests/paths.h"
#include "tests/serve/running_service.h"
#include "tests/serve/scripted_driver.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

constexpr const char* kQuiet = "memory=8388608";
constexpr const char* kBusy = "memory=8388608,busy=1-1000000";
const Json kMiss = {{"kernel", "decode_kernel"}, {"problem", "elements=1024"}, {"count", 5}};

Json post(const RunningService& running, const Json& misses) {
  const HttpResponse response = running.ask("POST", "/v1/misses", Json{{"misses", misses}}.dump());
  INFO(response.body);
  REQUIRE(response.status == 202);
  return Json::parse(response.body);
}

Json first_job(const RunningService& running) { return running.job(1); }

bool is_put_off(const RunningService& running) {
  return within_a_while([&] {
    const Json job = first_job(running);
    return job["state"] == "queued" && !job["not_before"].is_null();
  });
}

void use_gpu(RunningService& running) {
  running.options.devices = {"cuda:0"};
  running.options.threads = 1;
  running.options.limits.budget = 3;
  running.options.quiet = {.wait_s = 0, .put_off_s = 1};
}

}  // namespace

TEST_CASE("a miss is put off while somebody uses the GPU, and tuned within the limits once it is quiet") {
  const ScriptedDriver driver(kBusy);
  RunningService running;
  use_gpu(running);
  running.start();
  CHECK(post(running, Json::array({kMiss}))["queued"] == 1);
  CHECK(first_job(running)["request"]["budget"] == 3);
  REQUIRE(is_put_off(running));
  CHECK(running.get("/v1/winners")["winners"].empty());
  driver.play(kQuiet);
  const Json job = running.ended(1);
  CHECK(job["state"] == "done");
  CHECK(job["not_before"].is_null());
  CHECK(job["result"]["trials"]["total"].get<int>() <= 3);
  const Json winners = running.get("/v1/winners")["winners"];
  REQUIRE(winners.size() == 1);
  CHECK(winners[0]["contended"] == false);
  CHECK(winners[0]["provisional"] == false);
  CHECK(post(running, Json::array({kMiss}))["known"] == 1);
}

TEST_CASE("a miss that somebody asks for waits no longer") {
  const ScriptedDriver driver(kBusy);
  RunningService running;
  use_gpu(running);
  running.options.quiet.put_off_s = 3600;
  running.options.limits.seconds = 4;  // after which a search waits for no quiet GPU
  running.start();
  post(running, Json::array({kMiss}));
  REQUIRE(is_put_off(running));
  const Json joined = running.submit({{"kernel", "decode_kernel"}, {"problem", "elements=1024"}, {"budget", 3}});
  CHECK(joined["id"] == 1);
  const Json job = running.ended(1);
  CHECK(job["state"] == "done");
  CHECK(job["result"]["best"]["contended"] == true);  // as the command would have it
}

TEST_CASE("a miss waits for memory that a server takes") {
  const ScriptedDriver driver(kQuiet);
  setenv("MOETUNE_LIBNVML", paths::fake_libnvml(), 1);
  setenv("MOETUNE_FAKE_NVML", "free0=4096", 1);
  RunningService running;
  use_gpu(running);
  running.start();
  post(running, Json::array({kMiss}));
  REQUIRE(is_put_off(running));
  setenv("MOETUNE_FAKE_NVML", "free0=60000000", 1);
  CHECK(running.ended(1)["state"] == "done");
  running.service.reset();
  unsetenv("MOETUNE_LIBNVML");
  unsetenv("MOETUNE_FAKE_NVML");
}

TEST_CASE("a miss of other hardware is refused with the reason; so is what no kernel or limit allows") {
  RunningService running;
  running.options.limits.bytes = 1e6;
  running.start();
  Json here = kMiss, elsewhere = kMiss, large = kMiss, unknown = kMiss;
  here["hardware"] = "Test GPU";
  elsewhere["hardware"] = "NVIDIA H100";
  large["problem"] = "elements=16777216";
  unknown["kernel"] = "decode_kernle";
  const Json answer = post(running, Json::array({here, elsewhere, large, unknown, 7}));
  CHECK(answer["accepted"] == 1);
  CHECK(answer["queued"] == 1);
  CHECK(answer["refused"] == 4);
  const std::string why = answer["why"].dump();
  CHECK(answer["why"].size() == 4);
  CHECK(why.find("it was missed on NVIDIA H100, and this service tunes for Test GPU") != why.npos);
  CHECK(why.find("this service takes at most") != why.npos);
  CHECK(why.find("decode_kernel") != why.npos);
  // A file of moetune_write_misses, as it is: its hardware is that of all its misses.
  const Json file = {{"moetune_misses", 1}, {"hardware", "NVIDIA H100"}, {"misses", {kMiss, here}}};
  const HttpResponse posted = running.ask("POST", "/v1/misses", file.dump());
  CHECK(posted.status == 202);
  CHECK(Json::parse(posted.body)["accepted"] == 1);  // `here`, which says otherwise of itself
  CHECK(posted.body.find("it was missed on NVIDIA H100") != posted.body.npos);
}

TEST_CASE("misses take the room that is theirs, in one go, and leave the rest to who waits") {
  const SlowTrials slow;
  RunningService running;
  running.options.jobs.missed = 120;
  running.options.jobs.weight = 2'500'000;
  running.start();
  const Json blocker = running.started({{"budget", 2000}, {"seed", 9}, {"finalists", 1}});
  Json misses = Json::array();
  for (int i = 1; i <= 400; ++i)
    misses.push_back({{"kernel", "decode_kernel"},
                      {"problem", "elements=" + std::to_string(4096 * i)},
                      {"count", i == 1 ? std::uint64_t{1} << 60 : 1}});
  constexpr int kClients = 3;
  std::atomic<int> posted{0}, healthy{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i)
    clients.emplace_back([&] {
      post(running, misses);
      ++posted;
    });
  while (posted < kClients) {
    running.ask("GET", "/healthz");
    healthy += posted == 0;
  }
  for (std::thread& client : clients) client.join();
  CHECK(healthy >= 3);  // /healthz waits for nobody
  const Json answer = post(running, misses);
  CHECK(answer["accepted"] == 120);
  CHECK(answer["queued"] == 0);
  CHECK(answer["refused"] == 280);
  CHECK(answer["why"].dump().find("no room for another missed shape") != std::string::npos);
  const Json queued = running.get("/v1/jobs?state=queued&limit=1000")["jobs"];
  REQUIRE(queued.size() == 120);
  CHECK(queued[0]["weight"] == 2'500'000);  // of a million each time
  CHECK(queued[1]["weight"] == 4);
  CHECK(running.ask("GET", "/metrics").body.find("moetune_misses_total 4001596\n") != std::string::npos);
  CHECK_FALSE(queued[0]["deadline"].is_null());
  CHECK(running.submit({{"budget", 5}, {"seed", 10}})["state"] == "queued");
}

TEST_CASE("of two kinds of GPU a miss goes to its own") {
  const ScriptedDriver driver("devices=2,memory=8388608");
  RunningService running;
  use_gpu(running);
  running.options.devices = {"cuda:0", "cuda:1"};
  running.start();
  const Json devices = running.get("/v1/devices")["devices"];
  REQUIRE(devices.size() == 2);
  REQUIRE(devices[0]["hardware"] != devices[1]["hardware"]);
  Json miss = kMiss;
  miss["hardware"] = devices[1]["hardware"][0];
  post(running, Json::array({miss}));
  CHECK(running.ended(1)["device"] == "cuda:1");
  miss["hardware"] = devices[0]["hardware"][0];
  CHECK(post(running, Json::array({miss}))["known"] == 0);  // the other's winner is not its own
  CHECK(running.ended(2)["device"] == "cuda:0");
}

namespace {

// Holds 200 MiB, and goes by itself if nobody kills it.
pid_t large_child() {
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(static_cast<unsigned>(kPatience.count()));
  constexpr std::size_t kBytes = std::size_t{200} << 20;
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) _exit(1);
  std::fill_n(static_cast<char*>(memory), kBytes, 1);
  for (;;) pause();
}

// Holds nothing of its parent's from the beginning.
pid_t sleeping_child() {
  pid_t child = -1;
  char program[] = "/bin/sleep", seconds[] = "600";
  char* const words[] = {program, seconds, nullptr};
  REQUIRE(posix_spawn(&child, program, nullptr, nullptr, words, environ) == 0);
  return child;
}

}  // namespace

TEST_CASE("a child process that holds too much memory is killed, and no other") {
  const pid_t large = large_child(), small = sleeping_child();
  const auto children = child_processes();
  CHECK(std::count(children.begin(), children.end(), large) == 1);
  std::mutex mutex;
  std::string said;
  int status = 0;
  {
    const MemoryWatch watch(
        std::uint64_t{64} << 20,
        [&](const std::string& sentence) {
          const std::lock_guard lock(mutex);
          said = sentence;
        },
        std::chrono::milliseconds(10));
    CHECK(waitpid(large, &status, 0) == large);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
  CHECK(said.find("one may hold 0.06 GiB") != said.npos);
  CHECK(waitpid(small, &status, WNOHANG) == 0);
  kill(small, SIGKILL);
  waitpid(small, &status, 0);
}
