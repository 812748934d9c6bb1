// Searches of moetune's own kernels on a recording, where every candidate is compiled with the real NVRTC.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "cache/cache.h"
#include "kernels/registry.h"
#include "replay/recording.h"
#include "search/space.h"
#include "tests/cli/tool.h"
#include "tests/paths.h"

using namespace moetune::testing;

namespace {

const std::string kProblem = "elements=1048576,dtype=f32,write=all,passes=1";

// decode_kernel's legal space on a Hopper GPU with made-up times: more stages and wider tiles are faster.
std::string write_decode_recording(const Tool& tool, double read_tb_s = 0) {
  using namespace moetune;
  const Kernel& kernel = find_kernel("decode_kernel");
  const Space space = Space::parse(testing::read_text(paths::source("templates/decode_kernel/kernel.json")), "space");
  const Problem problem = kernel.parse(kProblem);
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  LegalSpace legal = space.enumerate(expression_environment(problem, limits));
  std::vector<RecordedTrial> trials;
  for (std::size_t id = 0; id < legal.size(); ++id) {
    const Config config = legal.config(static_cast<ConfigId>(id));
    const auto time =
        100.0 / static_cast<double>(config.number("stages")) + 200.0 / static_cast<double>(config.number("tile_kib"));
    trials.push_back({.time_us = static_cast<float>(time)});
  }
  const Recording recording{.hardware = {.name = "Test Hopper",
                                         .compute_capability = 90,
                                         .sm_count = limits.sm_count,
                                         .l2_bytes = limits.l2_bytes,
                                         .memory_bytes = limits.memory_bytes},
                            .limits = limits,
                            .kernel = kernel.name(),
                            .problem = problem.text(),
                            .recorded_at = "2025-01-31",
                            .read_tb_s = read_tb_s,
                            .space = std::move(legal),
                            .trials = std::move(trials)};
  const std::string path = tool.path("decode_kernel.json.zst").string();
  write_recording(recording, path);
  return path;
}

// The state letter and parent of a process; '\0' if there is none.
std::pair<char, pid_t> state_of(const std::string& pid) {
  std::ifstream stat("/proc/" + pid + "/stat");
  std::string line;
  char state = '\0';
  pid_t parent = 0;
  if (std::getline(stat, line)) std::sscanf(line.c_str() + line.rfind(')') + 1, " %c %d", &state, &parent);
  return {state, parent};
}

bool runs(pid_t pid) {
  const char state = state_of(std::to_string(pid)).first;
  return state != '\0' && state != 'Z' && state != 'X';
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos && state_of(name).second == parent)
      found.push_back(static_cast<pid_t>(std::stoi(name)));
  }
  return found;
}

}  // namespace

TEST_CASE("a search of moetune's kernel on a recording compiles for real and stores a launchable winner") {
  Tool tool;
  const std::string recording = write_decode_recording(tool);
  const Ended ended =
      tool.run({"search", "decode_kernel", "--device", "replay:" + recording, "--budget", "24", "--json"});
  const Json found = document(ended);
  CHECK(found["compiled"] == true);
  CHECK(ended.code == 0);
  CHECK(found["problem"] == kProblem);
  CHECK(found["dimensions"]["elements"] == 1048576);
  CHECK(found["device"]["architecture"] == "sm_90a");
  CHECK(found["trials"]["total"] == 24);
  CHECK(found["trials"]["compile_failed"] == 0);
  CHECK(found["time"]["compiling_s"].get<double>() > 0);
  CHECK(found["default"]["time_us"].get<double>() > 0);
  CHECK(found["speedup"].get<double>() >= 1);
  CHECK(found["best"]["tb_s"].get<double>() ==
        doctest::Approx(2.0 * 4 * 1048576 / found["best"]["time_us"].get<double>() * 1e-6));

  const Json workloads = document(tool.run({"cache", "ls", "--json"}))["workloads"];
  REQUIRE(workloads.size() == 1);
  CHECK(workloads[0]["winner"] == true);
  CHECK(workloads[0]["toolchain"].get<std::string>().starts_with("nvrtc "));
  const Json shown = document(tool.run({"cache", "show", std::to_string(workloads[0]["id"].get<int>()), "--json"}));
  CHECK(shown["config"] == found["best"]["config"]);
  CHECK(shown["cubin_bytes"].get<int>() > 1000);
  CHECK_FALSE(shown["plan"]["launches"].empty());
  CHECK(shown["provenance"]["strategy"] == "auto");

  auto cache = moetune::Cache::open(tool.path("xdg/moetune/moetune.db"), moetune::Cache::Mode::read_only);
  const auto winner = cache.winners.find(cache.workloads.all()[0].id);
  REQUIRE(winner.has_value());
  CHECK(std::string(winner->cubin.begin() + 1, winner->cubin.begin() + 4) == "ELF");
  const std::string report = tool.run({"report"}).out;
  CHECK(contains(report, "Test Hopper (recorded)"));
  CHECK_FALSE(contains(report, " µs*"));  // the star marks what has no cubin
}

TEST_CASE("a second search compiles nothing that the cache holds") {
  Tool tool;
  const std::string recording = write_decode_recording(tool);
  const std::vector<std::string> command = {"search", "decode_kernel", "--device",   "replay:" + recording, "--budget",
                                            "16",     "--fresh",       "--strategy", "exhaustive",          "--json"};
  const Ended first = tool.run(command);
  const Json again = document(tool.run(command));
  CHECK(again["trials"]["total"] == 16);
  CHECK(again["trials"]["resumed"] == 0);
  CHECK(document(first)["time"]["compiling_s"].get<double>() > 0);
  CHECK(again["time"]["compiling_s"].get<double>() == 0);
}

TEST_CASE("kill -9 takes the compiler's processes with it, and the tool itself never loads NVRTC") {
  Tool tool;
  const std::string recording = write_decode_recording(tool);
  const auto process = tool.start({"search", "decode_kernel", "--device", "replay:" + recording, "--strategy", "random",
                                   "--budget", "300", "--no-cache", "--verbose"});
  REQUIRE(process->says_lines(6));
  const std::vector<pid_t> compilers = children_of(process->pid());
  CHECK_FALSE(compilers.empty());
  CHECK(compilers.size() <= std::min(16u, std::thread::hardware_concurrency()));
  const auto maps = [](pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/maps");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  CHECK(contains(maps(compilers[0]), "libnvrtc.so"));
  CHECK_FALSE(contains(maps(process->pid()), "libnvrtc"));
  process->send(SIGKILL);
  process->wait();
  for (const pid_t pid : compilers) {
    CAPTURE(pid);
    CHECK(within_a_while([&] { return !runs(pid); }));
  }
}

TEST_CASE("--no-compile replays without the compiler and keeps its trials apart") {
  Tool tool;
  const std::string recording = write_decode_recording(tool);
  const Ended ended = tool.run(
      {"search", "decode_kernel", "--device", "replay:" + recording, "--budget", "200", "--no-compile", "--json"});
  CHECK(ended.code == 0);
  const Json found = document(ended);
  CHECK(found["compiled"] == false);
  CHECK(found["time"]["compiling_s"] == 0);
  CHECK(document(tool.run({"cache", "ls", "--json"}))["workloads"][0]["winner"] == false);
}

TEST_CASE("a replay has a roofline fraction where its recording holds the read ceiling, else none") {
  for (const double ceiling : {0.0, 4.5}) {
    CAPTURE(ceiling);
    Tool tool;
    const std::string recording = write_decode_recording(tool, ceiling);
    const Json found = document(tool.run(
        {"search", "decode_kernel", "--device", "replay:" + recording, "--budget", "20", "--no-compile", "--json"}));
    const Json report = document(tool.run({"report", "--json"}))["workloads"][0];
    if (ceiling == 0) {
      CHECK(found["best"]["roofline"].is_null());
      CHECK(report["roofline"].is_null());
    } else {
      const double share = found["best"]["tb_s"].get<double>() / ceiling;
      CHECK(found["best"]["roofline"].get<double>() == doctest::Approx(share));
      CHECK(report["roofline"].get<double>() == doctest::Approx(share));
      CHECK(found["best"]["bound"] == "memory bandwidth");
      const Ended shown =
          tool.run({"search", "decode_kernel", "--device", "replay:" + recording, "--budget", "20", "--no-compile"});
      CHECK(contains(shown.out, " TB/s  "));
      CHECK(contains(shown.out, "% of the roofline (memory bandwidth)"));
    }
    CHECK(tool.run({"cache", "check"}).code == 0);
  }
}

TEST_CASE("a recording serves only the problem that it is of") {
  Tool tool;
  const std::string recording = write_decode_recording(tool);
  const Ended other = tool.run(
      {"search", "decode_kernel", "--device", "replay:" + recording, "--problem", "elements=4096", "--no-compile"});
  CHECK(other.code == 2);
  CHECK(contains(other.err, kProblem));
  const Ended same = tool.run({"search", "decode_kernel", "--device", "replay:" + recording, "--problem",
                               "elements=1048576", "--no-compile", "--budget", "3"});
  CHECK(same.code == 0);
  const Json space =
      document(tool.run({"space", "decode_kernel", "--device", "replay:" + recording, "--list", "2", "--json"}));
  CHECK(space["legal"].get<int>() > 100);
  CHECK(space["configs"].size() == 2);
}

TEST_CASE("a recording of a problem that its kernel does not have is named") {
  Tool tool;
  moetune::Recording recording = moetune::read_recording(write_decode_recording(tool));
  recording.problem = "elements=0";
  const std::string path = tool.path("odd.json.zst").string();
  moetune::write_recording(recording, path);
  const Ended ended = tool.run({"search", "--device", "replay:" + path, "--no-compile"});
  CHECK(ended.code == 2);
  CHECK(contains(ended.err, path));
  CHECK(contains(ended.err, "elements=0 is out of range"));
}

TEST_CASE("a signal while the compiler starts is Ctrl-C all the same") {
  Tool tool;
  const std::string recording = write_decode_recording(tool);
  for (int delay = 10; delay <= 150; delay += 20) {
    CAPTURE(delay);
    const auto process = tool.start({"search", "decode_kernel", "--device", "replay:" + recording, "--budget", "300",
                                     "--no-cache", "--strategy", "random"});
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    process->send(SIGINT);
    CHECK(within_a_while([&] { return process->has_ended(); }));
    const Ended ended = process->wait();
    CAPTURE(ended.err);
    CHECK((ended.code == 130 || ended.signal == SIGINT));  // the latter before main() has begun
  }
}

TEST_CASE("a compiler that was named and does not work is not passed over") {
  Tool tool(std::map<std::string, std::string>{{"MOETUNE_NVRTC", "/nowhere/libnvrtc.so"}});
  const std::string recording = write_decode_recording(tool);
  const Ended ended = tool.run({"search", "decode_kernel", "--device", "replay:" + recording, "--budget", "3"});
  CHECK(ended.code == 3);
  CHECK(contains(ended.err, "MOETUNE_NVRTC"));
}

TEST_CASE("an edited space or reference keeps the stored trials, an edited template does not") {
  Tool copy;
  const std::filesystem::path data = copy.copy_data();
  Tool tool(std::map<std::string, std::string>{{"MOETUNE_DATA_DIR", data.string()}});
  const std::string recording = write_decode_recording(tool);
  const auto resumed = [&] {
    const Json found = document(tool.run({"search", "decode_kernel", "--device", "replay:" + recording, "--strategy",
                                          "random", "--no-compile", "--budget", "20", "--json"}));
    return found["trials"]["resumed"].get<int>();
  };
  const auto append = [&](const std::string& file, const std::string& text) {
    std::ofstream(data / file, std::ios::app) << text;
  };
  CHECK(resumed() == 0);
  append("templates/decode_kernel/kernel.json", "\n");
  append("templates/decode_kernel/reference.cu", "// edited\n");
  CHECK(resumed() == 20);
  append("templates/decode_kernel/elements.cuh", "// edited\n");
  CHECK(resumed() == 0);

  std::string space = moetune::testing::read_text(data / "spaces/decode_attention.json");
  std::ofstream(data / "spaces/router.json") << space;
  const Ended other = tool.run({"space", "router"});
  CHECK(other.code == 2);
  CHECK(contains(other.err, "must be 'router'"));
}

TEST_CASE("a winner is extracted into a new folder, and removed with its trials") {
  Tool tool;
  const std::string recording = "replay:" + write_decode_recording(tool);
  REQUIRE(tool.run({"search", "--device", recording, "--budget", "4"}).code == 0);
  const std::string folder = tool.path("winner").string();
  const Json out = document(tool.run({"cache", "extract", "1", folder, "--json"}));
  const std::string cubin = read_text(folder + "/winner.cubin");
  CHECK(cubin.size() == out["cubin_bytes"].get<std::size_t>());
  CHECK(cubin.substr(1, 3) == "ELF");
  CHECK(Json::parse(read_text(folder + "/plan.json"))["launches"][0]["entry"] == "decode_kernel");
  const Json key = Json::parse(read_text(folder + "/key.json"));
  CHECK(key["problem"] == kProblem);
  CHECK(key["recorded"] == true);

  const Ended again = tool.run({"cache", "extract", "1", folder});
  CHECK(again.code == 2);
  CHECK(contains(again.err, "there already"));
  CHECK(tool.run({"cache", "extract", "1"}).code == 2);
  CHECK(tool.run({"cache", "extract", "7", tool.path("other").string()}).code == 2);
  CHECK(tool.run({"cache", "rm", "1", "2"}).code == 2);

  CHECK(contains(tool.run({"cache", "ls"}).out, "1 winner,"));
  CHECK(contains(tool.run({"cache", "rm", "1"}).out, "Removed decode_kernel"));
  CHECK(document(tool.run({"cache", "ls", "--json"}))["workloads"].empty());
  CHECK(tool.run({"cache", "check"}).code == 0);
  CHECK(tool.run({"cache", "rm", "1"}).code == 2);
}
