#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/tool.h"
#include "tests/paths.h"

using namespace moetune::testing;

namespace {

// Of another tuner, as --device takes it.
std::string results_file(const std::string& name) {
  return "replay:" + paths::source("tests/replay/kernel_tuner/" + name + ".json");
}

bool shows_a_time(const std::string& text) {
  const std::string before = text.substr(0, text.find("\n  time "));
  return contains(before, "µs") || contains(before, " ms");
}

}  // namespace

TEST_CASE("a search on a Kernel Tuner file finds its optimum and says how good it is") {
  Tool tool;
  const std::string recording = tool.write_recording();
  const Ended ended = tool.run({"search", "saxpy", "--device", "replay:" + recording, "--budget", "400", "--json"});
  CHECK(ended.code == 0);
  CHECK(ended.err.empty());  // --json is quiet
  const Json found = document(ended);
  CHECK(found["kernel"] == "saxpy");
  CHECK(found["strategy"] == "auto");
  CHECK(found["seed"] == 1);
  CHECK(found["legal"] == 2000);
  CHECK(found["device"]["id"] == "replay:" + recording);
  CHECK(found["device"]["name"] == "Test GPU");
  CHECK(found["device"]["recorded"] == true);
  CHECK(found["compiled"] == false);
  CHECK(found["default"].is_null());
  CHECK(found["best"]["config"] == "x=7,y=42");
  CHECK(found["best"]["parameters"] == Json{{"x", 7}, {"y", 42}});
  CHECK(found["best"]["time_us"].get<double>() == doctest::Approx(1000));
  CHECK(found["best"]["regret"].get<double>() == doctest::Approx(1));
  CHECK(found["best"]["roofline"].is_null());
  const Json& trials = found["trials"];
  CHECK(trials["total"] == 400);
  CHECK(trials["ok"].get<int>() + trials["compile_failed"].get<int>() + trials["too_slow"].get<int>() == 400);
  CHECK(trials["compile_failed"].get<int>() > 0);
  CHECK(trials["resumed"] == 0);
  CHECK(found["wall_s"].get<double>() > 0);
}

TEST_CASE("a recording of failures alone ends with exit code 1 and no best") {
  Tool tool;
  tool.write("bad.json", R"({"device_name": "Test GPU", "kernel_name": "bad", "problem_size": 1,
    "tune_params_keys": ["x"], "tune_params": {"x": [1, 2, 3]}, "objective": "time",
    "cache": {"1": {"x": 1, "time": "CompilationFailedConfig"}, "2": {"x": 2, "time": "RuntimeFailedConfig"},
              "3": {"x": 3, "time": "RuntimeFailedConfig"}}})");
  const Ended ended = tool.run({"search", "--device", "replay:" + tool.path("bad.json").string(), "--json"});
  CHECK(ended.code == 1);
  CHECK(contains(ended.err, "No valid configuration"));
  const Json found = document(ended);
  CHECK(found["best"].is_null());
  CHECK(found["trials"]["total"] == 3);
  CHECK(found["trials"]["ok"] == 0);
}

TEST_CASE("without --json stdout carries the result and stderr the rest") {
  Tool tool;
  const std::string recording = tool.write_recording();
  const Ended ended = tool.run({"search", "--device", "replay:" + recording, "--budget", "50"});
  CHECK(ended.code == 0);
  CHECK(ended.out.starts_with("saxpy\n"));
  CHECK(contains(ended.out, "Test GPU, recorded"));
  CHECK(contains(ended.out, "  trials"));
  CHECK(contains(ended.err, "2,000 legal configurations, budget 50 trials."));
  CHECK_FALSE(contains(ended.err, "\r"));  // no live line where there is no terminal
}

TEST_CASE("the shipped recording stands in where there is no GPU, and says so") {
  Tool tool;
  const Ended ended = tool.run({"search", "decode_attention", "--budget", "20", "--no-compile", "--json"});
  if (ended.code == 3 && contains(ended.err, "no recording of decode_attention is shipped")) {
    MESSAGE("skipped: no recording is embedded in this build");
    return;
  }
  CHECK(ended.code == 0);
  CHECK(contains(ended.err, "No GPU here"));
  const Json found = document(ended);
  CHECK(contains(ended.err, "recorded on " + found["device"]["name"].get<std::string>()));
  CHECK(found["device"]["origin"].get<std::string>().starts_with("replay:"));
  CHECK(found["best"]["regret"].get<double>() >= 1);
}

TEST_CASE("a full disk under stdout is an error, not silence") {
  if (!std::filesystem::exists("/dev/full")) return;
  Tool tool;
  std::filesystem::create_symlink("/dev/full", tool.path("run0.out"));
  const Ended ended = tool.start({"kernels", "--json"})->wait();
  CHECK(ended.code == 3);
  CHECK(contains(ended.err, "standard output could not be written"));
}

TEST_CASE("an objective that is no time is named, shown in its own figures, and not kept") {
  Tool tool;
  const std::vector<std::string> command = {"search",      "--device", results_file("objective_list_150"),
                                            "--objective", "energy",   "--verbose"};
  const Ended ended = tool.run(command);
  CAPTURE(ended.out);
  CHECK(ended.code == 0);
  CHECK(contains(ended.out, "objective    energy, the smaller the better\n"));
  CHECK(contains(ended.out, "best         1  (the best recorded)\n"));
  CHECK(contains(ended.out, "config       bx=16\n"));
  CHECK_FALSE(shows_a_time(ended.out));
  CHECK_FALSE(shows_a_time(ended.err));
  CHECK(contains(ended.err, "ok              9  bx=32"));
  CHECK(contains(ended.err, "The cache keeps times: what is found by energy is not kept."));
  CHECK_FALSE(std::filesystem::exists(tool.path("xdg")));
  const Json found = document(tool.run({"search", "--device", results_file("objective_list_150"), "--objective",
                                        "energy:max", "--json", "--history", "--no-cache"}));
  CHECK(found["objective"] == Json{{"name", "energy"}, {"unit", ""}, {"better", "larger"}});
  CHECK(found["best"]["config"] == "bx=32");
  CHECK(found["best"]["figure"] == 9);
  CHECK_FALSE(found["best"].contains("time_us"));
  CHECK(found["confidence"].is_null());
  CHECK(found["history"][0].contains("figure"));
  CHECK_FALSE(found["history"][0].contains("time_us"));
  // The file's own, in its own direction.
  const Ended score = tool.run({"search", "--device", results_file("objective_score_no_time"), "--budget", "1"});
  CHECK(score.code == 0);
  CHECK(contains(score.out, "score, the larger the better\n"));
  CHECK(contains(score.out, "(the best recorded"));
}

TEST_CASE("a time by another objective's name is a time, and no other search's") {
  Tool tool;
  const std::vector<std::string> time = {"search", "--device", results_file("objective_list_150"), "--objective",
                                         "time"};
  CHECK(contains(tool.run(time).out, "best         1.00 ms"));
  CHECK(contains(tool.run(time).out, "resumed"));
  CHECK(contains(tool.run({"report"}).out, "1.00 ms"));
}

TEST_CASE("an objective that is not there, or not told, is one line with what would be") {
  Tool tool;
  const auto refused = [&](std::vector<std::string> command, const std::string& says) {
    command.insert(command.begin(), "search");
    const Ended ended = tool.run(command);
    CAPTURE(ended.err);
    CHECK(ended.code == 2);
    CHECK(contains(ended.err, says));
    CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
  };
  refused({"--device", results_file("objective_list_150")}, "and a search takes one of them: time or energy");
  refused({"--device", results_file("nan_power"), "--objective", "enrgy"}, "--objective: no row of ");
  refused({"--device", "replay:decode_attention_h200_b8_c4096", "--objective", "energy"},
          "--objective: replay/recordings/decode_attention_h200_b8_c4096.json.zst is moetune's own recording");
  refused({"decode_attention", "--device", "cuda:0", "--objective", "energy"},
          "--objective: a GPU is searched for time");
  refused({"decode_attention", "--over", "batch=1..4", "--objective", "energy"},
          "--objective: a range is searched for");
  refused({"--server", "http://127.0.0.1:1", "--objective", "energy"}, "leave it out with --server");
  refused({"axpy", "--problem", "x=1", "--device", results_file("nan_power")},
          "is not moetune's recording: a problem and a preset do not apply");
}

TEST_CASE("moetune's own T4 files are read back: the same rows, times and ends") {
  Tool tool;
  const std::string recording = tool.write_recording(3);
  const Json first = document(tool.run(
      {"search", "--device", "replay:" + recording, "--strategy", "exhaustive", "--budget", "1000", "--json"}));
  REQUIRE(tool.run({"search", "decode_attention", "--device", "replay:decode_attention_h200_b8_c4096", "--budget", "20",
                    "--no-compile"})
              .code == 0);
  REQUIRE(tool.run({"report", "--t4", tool.path("t4").string()}).code == 0);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(tool.path("t4"))) {
    ++files;
    const Ended ended = tool.run({"search", "--device", "replay:" + entry.path().string(), "--strategy", "exhaustive",
                                  "--budget", "1000", "--json"});
    CAPTURE(ended.err);
    CHECK(ended.code == 0);
    const Json again = document(ended);
    CHECK(again["objective"]["name"] == "time");
    CHECK(again["compiled"] == false);
    if (again["kernel"] != "saxpy") {
      CHECK(again["kernel"] == "decode_attention");
      CHECK(contains(again["problem"], "batch=8"));
      CHECK(again["device"]["name"] == "NVIDIA H200");
      CHECK(again["legal"] == 20);
      continue;
    }
    CHECK(again["best"]["config"] == first["best"]["config"]);
    CHECK(again["best"]["time_us"] == first["best"]["time_us"]);
    CHECK(again["trials"]["compile_failed"] == first["trials"]["compile_failed"]);
  }
  CHECK(files == 2);
  // Kept as what they are: results of files, of which no server gets one.
  CHECK(tool.run({"report"}).code == 0);
  CHECK(contains(tool.run({"cache", "check"}).out, "is sound"));
  CHECK(tool.run({"cache", "export", tool.path("p.pack").string()}).code != 0);
}
