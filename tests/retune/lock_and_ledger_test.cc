// What outlives a night: the lock that keeps two apart, and the ledger that the next one reads.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/error.h"
#include "retune/device_night.h"
#include "retune/night_lock.h"
#include "retune/plan.h"
#include "staleness/ledger.h"
#include "staleness/today.h"
#include "tests/temporary_folder.h"

using namespace moetune;

namespace {

WorkloadKey some_key(const std::string& problem) { return {"router", problem, {.name = "GPU"}, "s", "t"}; }

void write_lock(const std::string& file, const std::string& boot, std::int64_t pid) {
  std::ofstream(file) << "{\"boot_id\":\"" << boot << "\",\"pid\":" << pid << ",\"started\":5}";
}

}  // namespace

TEST_CASE("a second night is refused while the first goes on, and may come after it") {
  const TemporaryFolder folder;
  const std::string file = folder.file("lock");
  {
    const NightLock first(file);
    CHECK(first.taken_over().empty());
    const LockContent content = read_lock(file);
    CHECK(content.boot_id == boot_id());
    CHECK(content.pid == getpid());
    CHECK(content.started > 0);
    try {
      const NightLock second(file);
      FAIL("two nights at once");
    } catch (const BrokenEnvironment& error) {
      CHECK(std::string(error.what()).find("process " + std::to_string(getpid())) != std::string::npos);
    }
  }
  CHECK(read_lock(file).pid == 0);
  CHECK(NightLock(file).taken_over().empty());
}

TEST_CASE("a GPU has one lock for all caches, in a folder that is the user's alone") {
  const TemporaryFolder folder;
  setenv("XDG_CACHE_HOME", folder.file("xdg").c_str(), 1);
  {
    const DeviceLock first(folder.file("a.db-retune-GPU-1"), "GPU-1");
    CHECK_THROWS_AS(DeviceLock(folder.file("b.db-retune-GPU-1"), "GPU-1"), BrokenEnvironment);
    CHECK_NOTHROW(DeviceLock(folder.file("b.db-retune-GPU-2"), "GPU-2"));
    CHECK_NOTHROW(DeviceLock(folder.file("b.db-retune-recordings"), ""));
    CHECK_THROWS_AS(DeviceLock(folder.file("a.db-retune-GPU-1"), ""), BrokenEnvironment);
  }
  CHECK_NOTHROW(DeviceLock(folder.file("b.db-retune-GPU-1"), "GPU-1"));
  const std::filesystem::path locks = gpu_lock_folder();
  CHECK(std::filesystem::status(locks).permissions() == std::filesystem::perms::owner_all);
  using std::filesystem::perms;
  for (const perms others : {perms::group_write, perms::others_write, perms::all}) {
    std::filesystem::permissions(locks, perms::owner_all | others);
    CHECK_THROWS_AS(gpu_lock_folder(), BrokenEnvironment);
  }
  std::filesystem::remove_all(locks);
  std::filesystem::create_directories(folder.file("elsewhere"));
  std::filesystem::create_directory_symlink(folder.file("elsewhere"), locks);
  CHECK_THROWS_AS(gpu_lock_folder(), BrokenEnvironment);
  unsetenv("XDG_CACHE_HOME");
}

TEST_CASE("a night that was killed frees its lock, and the next one says so") {
  const TemporaryFolder folder;
  const std::string file = folder.file("lock");
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    auto lock = std::make_unique<NightLock>(file);
    [[maybe_unused]] const auto written = write(ready[1], "x", 1);
    pause();
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  CHECK_THROWS_AS(NightLock{file}, BrokenEnvironment);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  CHECK(NightLock(file).taken_over().find("did not end properly: it was killed") != std::string::npos);
}

TEST_CASE("a lock of an earlier boot counts for nothing, whoever has its process id now") {
  const TemporaryFolder folder;
  write_lock(folder.file("lock"), "another-boot", getpid());
  CHECK(NightLock(folder.file("lock")).taken_over().find("started again") != std::string::npos);
}

TEST_CASE("a lock file that says nothing sensible is taken") {
  const TemporaryFolder folder;
  for (const char* text : {"", "{}", "[1]", "not json", "{\"pid\": \"x\"}"}) {
    std::ofstream(folder.file("lock")) << text;
    CHECK_NOTHROW(NightLock{folder.file("lock")});
  }
  CHECK_THROWS_AS(NightLock{folder.file("no/such/lock")}, BrokenEnvironment);
}

TEST_CASE("the ledger keeps what each workload was found to be") {
  const TemporaryFolder folder;
  const std::string file = folder.file("ledger.json");
  {
    Ledger ledger(file);
    ledger.put(some_key("tokens=1"), {{"s", "p", "t", "d"}, "kept", 100, 3, 9.5});
    ledger.put(some_key("tokens=2"), {{"s", "p", "t", "d", "by this"}, "improved", 200, 13, 0});
    ledger.put(some_key("tokens=1"), {{"s2", "p", "t", "d"}, "begun_full", 300, 0, 0});
  }
  const Ledger ledger(file);
  CHECK(ledger.damage().empty());
  REQUIRE(ledger.find(some_key("tokens=1")));
  CHECK(ledger.find(some_key("tokens=1"))->begun() == Remedy::full);
  CHECK_FALSE(ledger.find(some_key("tokens=1"))->is_done());
  CHECK_FALSE(ledger.find(some_key("tokens=2"))->begun());
  CHECK(ledger.find(some_key("tokens=2"))->made_with == MadeWith{"s", "p", "t", "d", "by this"});
  CHECK_FALSE(ledger.find(some_key("tokens=3")));
  CHECK(ledger.mean_seconds("router", true) == 13);
  CHECK(ledger.mean_seconds("router", false) == 0);
}

TEST_CASE("of the ledgers beside a cache the latest entry counts, whichever file has it") {
  const TemporaryFolder folder;
  const std::filesystem::path cache = folder.file("cache.db");
  const DeviceInfo gpu{.id = "cuda:0", .uuid = "GPU-1"};
  for (const auto& [file, latest] : {std::pair{night_files(cache, &gpu, 0), 1}, {night_files(cache, &gpu, 1), 2}}) {
    Ledger ledger(file.string() + ".json");
    for (const int number : {1, 2})
      ledger.put(some_key("tokens=" + std::to_string(number)), {{}, "kept", number == latest ? 200 : 100, 3, 9});
  }
  Ledger(folder.file("other.db-retune-GPU-1.json")).put(some_key("tokens=1"), {{}, "kept", 300, 3, 9});
  for (const char* problem : {"tokens=1", "tokens=2"}) CHECK(ledgers_beside(cache).find(some_key(problem))->at == 200);
}

TEST_CASE("what a night found of one configuration says nothing of another that a merge put in its place") {
  const TemporaryFolder folder;
  WorkloadKey key = some_key("tokens=1");
  key.hardware = {.name = "NVIDIA H200", .compute_capability = 90, .sm_count = 132};
  Cache cache = Cache::open(folder.file("cache.db"), Cache::Mode::create);
  WinnerRecord winner;
  winner.config = "tile=1";
  winner.plan = "{}";
  winner.cubin = {1};
  winner.time_us = winner.interval_low_us = winner.interval_high_us = 9;
  winner.provenance = R"({"driver": "of before"})";
  winner.stored_at = "2026-01-01T00:00:00Z";
  cache.winners.put(cache.workloads.id(key), winner);
  const std::int64_t later = seconds_of_date("2026-01-02T00:00:00Z");
  const auto driver_then = [&](const std::string& examined) {
    Ledger ledger(folder.file("ledger.json"));
    ledger.put(key, {{"s", "", "t", "of today"}, "improved", later, 3, 9, examined});
    moetune::StoredSpaces spaces;
    const std::optional<Incumbent> found = find_incumbent(cache, Ledger(folder.file("ledger.json")), key, spaces);
    REQUIRE(found);
    return found->made_with.driver;
  };
  CHECK(driver_then("tile=1") == "of today");
  CHECK(driver_then("") == "of today");  // of a ledger of before
  CHECK(driver_then("tile=2") == "of before");
}

TEST_CASE("a damaged ledger is said, and begun afresh") {
  const TemporaryFolder folder;
  const std::string file = folder.file("ledger.json");
  for (const char* text : {"", "{", "{\"moetune_retune\": 2, \"workloads\": []}", "{\"moetune_retune\": 1}",
                           "{\"moetune_retune\": 1, \"workloads\": [{\"kernel\": 3}]}"}) {
    std::ofstream(file) << text;
    Ledger ledger(file);
    CHECK_FALSE(ledger.damage().empty());
    CHECK_FALSE(ledger.find(some_key("tokens=1")));
    ledger.put(some_key("tokens=1"), {.verdict = "kept", .at = 1});
    CHECK(Ledger(file).damage().empty());
  }
}

TEST_CASE("a full disk leaves the ledger of before") {
  const TemporaryFolder folder;
  const std::string file = folder.file("ledger.json");
  Ledger(file).put(some_key("tokens=1"), {.verdict = "kept", .at = 1});
  // No file may grow: root, who writes into any folder, meets that as everybody does.
  rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit none = {0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &none) == 0);
  CHECK_THROWS_AS(Ledger(file).put(some_key("tokens=2"), {}), BrokenEnvironment);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  CHECK(Ledger(file).find(some_key("tokens=1")));
  CHECK_FALSE(Ledger(file).find(some_key("tokens=2")));
  Ledger full("/dev/full/ledger.json");
  CHECK_THROWS_AS(full.put(some_key("tokens=1"), {}), BrokenEnvironment);
}
