// The compiler in processes of its own: what a bad template can do to one, and that nothing else is lost.
#include "tuner/compile/compile_processes.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "tests/paths.h"
#include "tests/temporary_folder.h"
#include "tests/within_a_while.h"
#include "tuner/compile/compile_pool.h"
#include "tuner/compile/compiler.h"

using namespace std::chrono_literals;

namespace moetune {
namespace {

using testing::within_a_while;
using Status = NvrtcResult::Status;

// An environment variable for as long as this lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~Environment() { before_.empty() ? ::unsetenv(name_) : ::setenv(name_, before_.c_str(), 1); }

 private:
  const char* name_;
  std::string before_;
};

// Processes over the stand-in for NVRTC (tests/fake_nvrtc).
struct Fake {
  explicit Fake(CompileProcesses::Options options = {.most = 2}) : processes(std::move(options)) {}
  NvrtcResult compile(const std::string& source, std::chrono::milliseconds limit = 60s) {
    return processes.compile({{{"k.cu", source}}, {"--gpu-architecture=sm_90"}, limit});
  }
  bool works() { return compile("sound").status == Status::ok; }

  Environment nvrtc{"MOETUNE_NVRTC", paths::fake_nvrtc()};
  CompileProcesses processes;
};

// Compilations of the stand-in that end when a test lets them, by name.
struct Gate : TemporaryFolder {
  // The last word of a source.
  std::string hold(const std::string& name) const { return "hold!" + file(name); }
  bool has_begun(const std::string& name) const { return std::filesystem::exists(file(name + ".begun")); }
  void open(const std::string& name) const { std::ofstream{path() / name}; }
};

NvrtcJob job_of(const std::string& source, std::chrono::milliseconds limit = 60s) {
  return {{{"k.cu", source}}, {"--gpu-architecture=sm_80", "--std=c++17", "--ptxas-options=-v"}, limit};
}

// Processes whose parent is this one and that are not zombies; with `zombies`, those alone.
std::set<pid_t> children(bool zombies = false) {
  std::set<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat");
    std::string line;
    if (!std::getline(stat, line)) continue;
    char state = 0;
    pid_t parent = 0;
    if (std::sscanf(line.c_str() + line.rfind(')') + 1, " %c %d", &state, &parent) != 2) continue;
    if (parent == getpid() && (state == 'Z') == zombies)
      found.insert(static_cast<pid_t>(std::stoi(entry.path().filename())));
  }
  return found;
}

std::set<pid_t> without(std::set<pid_t> all, const std::set<pid_t>& gone) {
  for (const pid_t pid : gone) all.erase(pid);
  return all;
}

// A log but for how long ptxas took.
std::string without_time(std::string log) {
  const std::size_t at = log.find("Compile time");
  if (at != std::string::npos) log.erase(at, log.find('\n', at) - at);
  return log;
}

// Keeps NVRTC's front end, which cannot be asked to stop, busy for minutes and in little memory.
std::string endless() {
  std::string text =
      "__device__ constexpr long f(long r) { for (long i = 0; i < 50000; i++) r = (r * 31 + i) % 1000003; "
      "return r; }\n";
  for (int i = 0; i < 5000; ++i) text += "constexpr long v" + std::to_string(i) + " = f(" + std::to_string(i) + ");\n";
  return text + "extern \"C\" __global__ void k(long* p) { p[0] = v0; }\n";
}

// Two to the 40th instantiations, all of them kept.
const std::string kGreedy =
    "template <int N, long M> struct F { static constexpr long v = F<N - 1, M>::v + F<N - 1, M + (1L << "
    "N)>::v; };\n"
    "template <long M> struct F<0, M> { static constexpr long v = M; };\n"
    "extern \"C\" __global__ void k(long* p) { p[0] = F<40, 0>::v; }\n";

}  // namespace

TEST_CASE("a process compiles what NVRTC itself does, to the byte") {
  CompileProcesses processes({.most = 1});
  const auto nvrtc = Nvrtc::load();
  CHECK(processes.facts().version == nvrtc->facts().version);
  CHECK(processes.facts().path == nvrtc->facts().path);
  CHECK(processes.facts().has_disk_cache == nvrtc->facts().has_disk_cache);
  CHECK(processes.facts().architectures == nvrtc->facts().architectures);
  for (const char* source : {"extern \"C\" __global__ void k(float* p) { p[threadIdx.x] *= 2; }",
                             "extern \"C\" __global__ void k(float* p) { nothing(); }"}) {
    const NvrtcResult here = nvrtc->compile(job_of(source)), there = processes.compile(job_of(source));
    CHECK(there.status == here.status);
    CHECK(there.cubin == here.cubin);
    CHECK(without_time(there.log) == without_time(here.log));
    CHECK(there.error == here.error);
  }
  CHECK(processes.started() == 1);
}

TEST_CASE("a template that hangs the front end costs itself, while others are compiled") {
  CompileProcesses processes({.most = 2});
  const auto compiles = [&] {
    return processes.compile(job_of("extern \"C\" __global__ void k() {}")).status == Status::ok;
  };
  while (processes.started() < 2) {  // so that what follows is no wait for a start
    auto beside = std::async(std::launch::async, compiles);
    CHECK(compiles());
    CHECK(beside.get());
  }
  auto hung = std::async(std::launch::async, [&] { return processes.compile(job_of(endless(), 2s)); });
  int done = 0;
  for (; hung.wait_for(0s) != std::future_status::ready; ++done) CHECK(compiles());
  CHECK(done > 1);  // the last of them may have waited for the one that hung
  const NvrtcResult result = hung.get();
  CHECK(result.status == Status::timed_out);
  CHECK(result.error == "the compiler took longer than 2 s");
  CHECK(processes.compile(job_of("extern \"C\" __global__ void k() {}")).status == Status::ok);
}

TEST_CASE("a template that needs more memory than it may have ends its process alone") {
  CHECK(CompileProcesses::Options{}.memory_limit == std::uint64_t{4} << 30);
  if (kSanitized) return;  // the sanitizer's own memory counts too
  CompileProcesses processes({.most = 1, .memory_limit = std::uint64_t{512} << 20});
  const NvrtcResult result = processes.compile(job_of(kGreedy));
  CHECK(result.status == Status::died);
  CHECK(result.error == "the compiler exited with status 1; it said: it needs more than 0.5 GiB of memory");
  CHECK(processes.compile(job_of("extern \"C\" __global__ void k() {}")).status == Status::ok);
  CHECK(processes.started() == 2);
}

TEST_CASE("a library that never loads is waited for as long as the job says") {
  const Environment nvrtc("MOETUNE_NVRTC", paths::fake_nvrtc()), hangs("MOETUNE_FAKE_NVRTC_HANGS", "1");
  CHECK_THROWS_WITH_AS(CompileProcesses({.most = 1, .load = {.limit = 200ms}}), "NVRTC did not load within 0.2 s",
                       BrokenEnvironment);
}

TEST_CASE("a compiler that crashes, hangs or grows is replaced, and says what it said") {
  Fake fake;
  CHECK(fake.processes.facts().version == "99.0.1");
  CHECK(fake.works());
  const NvrtcResult aborted = fake.compile("abort!");
  CHECK(aborted.status == Status::died);
  CHECK(aborted.error.starts_with("the compiler died of signal 6 (Aborted); it said: fake nvrtc: cannot go on"));
  CHECK(fake.works());
  CHECK(fake.compile("segv!").status == Status::died);
  CHECK(fake.works());
  CHECK(fake.compile("hang!", 100ms).status == Status::timed_out);
  CHECK(fake.works());
  // A death by a signal is tried twice; a sanitizer makes an exit of a fault.
  CHECK(fake.processes.started() == (kSanitized ? 5 : 6));
  CHECK(children(true).empty());
}

TEST_CASE("a crash is the candidate's own, told as a build that another try may change") {
  Environment nvrtc("MOETUNE_NVRTC", paths::fake_nvrtc());
  Compiler::Options options;
  options.architecture = "sm_90a";
  options.processes = std::make_shared<CompileProcesses>(CompileProcesses::Options{.most = 2});
  options.reader = [](const std::string& path) { return path; };
  const Compiler compiler(options);
  CHECK(compiler.processes() == 2);
  std::vector<std::future<Build>> builds;
  for (const char* source : {"a", "abort!", "b", "segv!", "c", "d"}) {
    builds.push_back(std::async(std::launch::async, [&compiler, source] { return compiler.compile({source, {}}); }));
  }
  for (std::size_t i = 0; i < builds.size(); ++i) {
    const Build build = builds[i].get();
    const bool bad = i == 1 || i == 3;
    CHECK((build.outcome == Outcome::compile_failed) == bad);
    CHECK(build.repeatable == !bad);
    // Under a sanitizer a fault ends the child with a report, not by the signal.
    CHECK(build.message.starts_with(bad ? "the compiler " : ""));
  }
}

TEST_CASE("no more processes than were allowed, whoever asks, and each outlives the thread that first needed it") {
  Fake fake;
  CHECK(fake.processes.started() == 1);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; ++i) threads.emplace_back([&] { CHECK(fake.works()); });
    for (std::thread& thread : threads) thread.join();
  }
  CHECK(fake.processes.started() <= 2);
  CHECK(CompileProcesses::shared() == CompileProcesses::shared());
}

// Two GPUs on a host of 32 cores compile twice as much as one: 16 processes for both made the second one's night as
// long as the first one's.
TEST_CASE("a search uses at most 16 processes, and two searches have 16 each where there are cores") {
  Environment nvrtc("MOETUNE_NVRTC", paths::fake_nvrtc());
  Compiler::Options options{.architecture = "sm_90a"};
  options.processes = std::make_shared<CompileProcesses>(CompileProcesses::Options{.most = 40});
  options.reader = [](const std::string& path) { return path; };
  const Compiler compiler(options);
  const Gate gate;
  const auto compile_all = [&](CompilePool& pool, const std::string& name) {
    std::vector<std::shared_future<BuildPtr>> builds;
    for (int i = 0; i < 20; ++i) builds.push_back(pool.submit({name + std::to_string(i) + gate.hold(name), {}}));
    return builds;
  };
  const auto all_start = [&](unsigned count) {
    return within_a_while([&] { return options.processes->started() >= count; });
  };
  CompilePool first(compiler, 64);
  CHECK(first.idle() == 16);
  const auto alone = compile_all(first, "a");
  CHECK(all_start(16));
  gate.open("a");
  for (const auto& build : alone) CHECK(build.get()->outcome == Outcome::ok);
  CHECK(options.processes->started() == 16);
  CompilePool second(compiler, 16);
  const auto ours = compile_all(first, "b"), theirs = compile_all(second, "b of another ");
  CHECK(all_start(17));
  gate.open("b");
  gate.open("b of another ");
  for (const auto& build : ours) CHECK(build.get()->outcome == Outcome::ok);
  for (const auto& build : theirs) CHECK(build.get()->outcome == Outcome::ok);
  CHECK(options.processes->started() <= 32);
}

TEST_CASE("the processes that all share are one a core") {
  CHECK(CompileProcesses::shared()->most() == std::max(1u, std::thread::hardware_concurrency()));
}

TEST_CASE("a process that was killed while idle is replaced, and none is left at the end") {
  const std::set<pid_t> before = children();
  {
    Fake fake;
    const std::set<pid_t> own = without(children(), before);
    REQUIRE(own.size() == 1);
    ::kill(*own.begin(), SIGKILL);
    siginfo_t ended = {};  // of all its threads
    REQUIRE(::waitid(P_PID, static_cast<id_t>(*own.begin()), &ended, WEXITED | WNOWAIT) == 0);
    CHECK(fake.works());
    CHECK(fake.processes.started() == 2);
  }
  CHECK(without(children(), before).empty());
  CHECK(children(true).empty());
}

TEST_CASE("an exception in the compiler's process is its job's own") {
  Fake fake({.most = 1});
  const NvrtcResult result = fake.compile("throw!");
  CHECK(result.status == Status::broken);
  CHECK(result.error == "std::bad_alloc");
  CHECK(fake.works());
}

TEST_CASE("a stop request ends the process of a template that hangs, and no other") {
  const std::set<pid_t> before = children();
  Fake fake;
  std::stop_source stop;
  auto hung = std::async(std::launch::async, [&] {
    return fake.processes.compile({{{"k.cu", "hang!"}}, {"--gpu-architecture=sm_90"}, 60s}, stop.get_token());
  });
  REQUIRE(within_a_while([&] {
    CHECK(fake.works());
    return fake.processes.started() == 2;  // one of them hangs
  }));
  const auto begin = std::chrono::steady_clock::now();
  stop.request_stop();
  const NvrtcResult result = hung.get();
  CHECK(std::chrono::steady_clock::now() - begin < 30s);  // of its 60
  CHECK(result.status == Status::died);
  CHECK(result.error == "the compiler was stopped");
  CHECK(without(children(), before).size() == 1);
  CHECK(fake.works());
  CHECK(fake.processes.started() == 2);
  CHECK(children(true).empty());
}

TEST_CASE("a process that somebody kills while it compiles costs its job nothing") {
  const std::set<pid_t> before = children();
  Fake fake({.most = 1});
  const std::set<pid_t> own = without(children(), before);
  REQUIRE(own.size() == 1);
  const Gate gate;
  auto held = std::async(std::launch::async, [&] { return fake.compile(gate.hold("k")); });
  REQUIRE(within_a_while([&] { return gate.has_begun("k"); }));
  ::kill(*own.begin(), SIGKILL);
  gate.open("k");
  CHECK(held.get().status == Status::ok);
  CHECK(fake.processes.started() == 2);
}

TEST_CASE("where no further process can start, those that run do, and the last one's end is told") {
  const TemporaryFolder folder;
  const auto script = folder / "start", full = folder / "full";
  std::ofstream(script) << "#!/bin/sh\n[ -e " << full << " ] && exit 1\nexec "
                        << std::filesystem::read_symlink("/proc/self/exe") << " \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  {
    Fake fake({.executable = script, .most = 4});
    std::ofstream{full};
    const Gate gate;
    std::vector<std::future<NvrtcResult>> jobs;
    for (int i = 0; i < 3; ++i)
      jobs.push_back(std::async(std::launch::async, [&] { return fake.compile(gate.hold("k")); }));
    REQUIRE(within_a_while([&] { return gate.has_begun("k"); }));
    std::this_thread::sleep_for(50ms);  // the others find that nothing can start
    gate.open("k");
    for (auto& job : jobs) {
      NvrtcResult result;
      CHECK_NOTHROW(result = job.get());
      CHECK(result.status == Status::ok);
    }
    CHECK(fake.processes.started() == 1);
    CHECK_THROWS_AS(fake.compile("abort!"), BrokenEnvironment);
    std::filesystem::remove(full);
    CHECK(fake.works());
  }
}

TEST_CASE("what cannot be started is a broken environment, with the reason") {
  CHECK_THROWS_WITH_AS(CompileProcesses({.executable = "/nowhere/moetune"}),
                       "cannot start a child process: posix_spawn of /nowhere/moetune: No such file or directory",
                       BrokenEnvironment);
  CHECK_THROWS_AS(CompileProcesses({.executable = "/bin/false"}), BrokenEnvironment);
  const Environment nvrtc("MOETUNE_NVRTC", "/nowhere/libnvrtc.so");
  try {
    CompileProcesses processes({});
    FAIL("it started");
  } catch (const BrokenEnvironment& error) {
    CHECK(std::string(error.what()).starts_with("MOETUNE_NVRTC: cannot open /nowhere/libnvrtc.so"));
  }
}

}  // namespace moetune
