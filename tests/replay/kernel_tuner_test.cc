#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "replay/compressed_file.h"
#include "replay/result_files.h"
#include "tests/paths.h"
#include "tests/refusal.h"

using namespace moetune;

namespace {

const std::string kHead = R"json({
"device_name": "Some GPU",
"kernel_name": "vector_add",
"problem_size": [4096, 128],
"tune_params_keys": ["block", "ratio", "fast", "layout"],
"tune_params": {"fast": [true, false], "block": [64, 32], "ratio": [0.5, 1.0, 1e-05], "layout": ["row", ""]},
"cache": {
)json";

const std::string kRows = R"json(
"64,0.5,True,row": {"block": 64, "time": 2.5, "times": [2.25, 2.5, 2.75], "GFLOP/s": 3.5, "timestamp": "2024-05-06 07:08:09"},
"32,1.0,False,row": {"time": "CompilationFailedConfig", "times": []},
"32,0.5,True,": {"time": "RuntimeFailedConfig"},
"32,1e-05,True,row": {"time": "InvalidConfig"},
"64,1.0,True,row": {"time": 1e20},
"64,1.0,False,row": {"compile_time": 12},
"32,0.5,False,row": {"nested": {"time": 1, "times": [1]}, "time": 3},
"64,0.5,False,row": {"time": "SomethingNewConfig"})json";

Recording parse(const std::string& text) { return parse_result_file(text, "kt.json", ""); }

std::string file_error(const std::string& text) {
  return refusal_of([&] { parse(text); });
}

const RecordedTrial& trial(const Recording& recording, const std::string& text) {
  const std::optional<ConfigId> id = recording.space.find_text(text);
  REQUIRE_MESSAGE(id.has_value(), text);
  return recording.trials[*id];
}

}  // namespace

TEST_CASE("a Kernel Tuner cache becomes a recording, errors as outcomes") {
  const Recording recording = parse(kHead + kRows + "}}");
  CHECK(recording.hardware.name == "Some GPU");
  CHECK(recording.hardware.compute_capability == 0);
  CHECK(recording.kernel == "vector_add");
  CHECK(recording.problem == "problem_size=4096x128");
  CHECK(recording.recorded_at == "2024-05-06");
  CHECK(recording.space.size() == 8);
  CHECK(recording.trials.size() == 8);
  const RecordedTrial& first = trial(recording, "block=64,ratio=0.5,fast=True,layout=row");
  CHECK(first.outcome == Outcome::ok);
  CHECK(first.time_us == 2500);
  CHECK(first.samples_us == std::vector<float>{2250, 2500, 2750});
  CHECK(trial(recording, "block=32,ratio=1.0,fast=False,layout=row").outcome == Outcome::compile_failed);
  CHECK(trial(recording, "block=32,ratio=0.5,fast=True,layout=''").outcome == Outcome::launch_failed);
  CHECK(trial(recording, "block=32,ratio=0.5,fast=True,layout=''").message == "RuntimeFailedConfig");
  CHECK(trial(recording, "block=32,ratio=1e-05,fast=True,layout=row").outcome == Outcome::pruned);
  CHECK(trial(recording, "block=64,ratio=1.0,fast=True,layout=row").outcome == Outcome::launch_failed);
  CHECK(trial(recording, "block=64,ratio=1.0,fast=False,layout=row").outcome == Outcome::launch_failed);
  CHECK(trial(recording, "block=64,ratio=0.5,fast=False,layout=row").message == "SomethingNewConfig");
  CHECK(trial(recording, "block=32,ratio=0.5,fast=False,layout=row").time_us == 3000);
  CHECK(trial(recording, "block=32,ratio=0.5,fast=False,layout=row").samples_us.empty());
  CHECK(recording.optimum_us() == 2500);
}

TEST_CASE("integers stay integers, and a domain with anything else becomes names") {
  const Recording recording = parse(kHead + kRows + "}}");
  const std::vector<Parameter>& parameters = recording.space.parameters();
  CHECK(parameters[0].values == std::vector<Value>{Value::integer(64), Value::integer(32)});
  CHECK(parameters[1].values[0].name == "0.5");
  CHECK(parameters[2].values[1].name == "False");
  CHECK(parameters[3].is_named());
}

TEST_CASE("a cache that is still open or was cut off gives its whole rows") {
  CHECK(parse(kHead + kRows + "}").space.size() == 8);
  CHECK(parse(kHead + kRows + ",").space.size() == 8);
  CHECK(parse(kHead + kRows + ",\n").space.size() == 8);
  const std::string all = kHead + kRows;
  CHECK(parse(all).space.size() == 8);
  for (std::size_t cut = 1; cut < 50; ++cut) {
    const std::size_t rows = parse(all.substr(0, all.size() - cut)).space.size();
    CHECK(rows == 7);
  }
}

TEST_CASE("of two rows for one configuration the later counts") {
  const Recording recording = parse(kHead + kRows + R"(,"64,0.5,True,row": {"time": 1.5}}})");
  CHECK(recording.space.size() == 8);
  CHECK(trial(recording, "block=64,ratio=0.5,fast=True,layout=row").time_us == 1500);
}

TEST_CASE("what is wrong in a cache file is named") {
  CHECK(file_error("{}") ==
        "kt.json: neither a moetune recording, nor a cache of Kernel Tuner, nor results in T4's or KTT's JSON");
  CHECK(file_error(kHead + "}}") == "kt.json: the cache holds no whole row");
  CHECK(file_error(kHead).find("no whole row") != std::string::npos);
  CHECK(file_error(kHead.substr(0, 40)).starts_with("kt.json: parse error at line"));
  CHECK(file_error(kHead + R"("64,0.5,True": {"time": 1}}})") ==
        "kt.json: the cache key '64,0.5,True' has 3 values for 4 parameters");
  CHECK(file_error(kHead + R"("65,0.5,True,row": {"time": 1}}})") ==
        "kt.json: the cache key '65,0.5,True,row' gives 'block' the value '65', which tune_params does not "
        "have");
  CHECK(file_error(R"({"tune_params_keys": ["a"], "tune_params": {}, "cache": {"1": {"time": 1}}})") ==
        "kt.json: tune_params has no values for 'a'");
  CHECK(file_error(R"({"tune_params_keys": ["a", "a"], "cache": {}})") == "kt.json: tune_params_keys has 'a' twice");
  CHECK(file_error(R"({"tune_params_keys": ["a"], "tune_params": {"a": [1, 2, 1]}, "cache": {}})") ==
        "kt.json: 'a' has the value 1 twice");
  CHECK(file_error(kHead + R"("64,0.5,True,row": {"time": -1}}})") ==
        "kt.json: the row '64,0.5,True,row' has a time of -1 ms");
  CHECK(file_error(kHead + R"("64,0.5,True,row": {"time": 1} "x"}})").starts_with("kt.json: parse error at line 8"));
}

TEST_CASE("a published cache file gives the rows, failures and optimum that it holds") {
  const std::filesystem::path path = paths::source("tests/data/pnpoly_RTX_3090.json.gz");
  const Recording recording = read_recording(path);
  CHECK(recording.hardware.name == "NVIDIA GeForce RTX 3090");
  CHECK(recording.kernel == "cn_pnpoly");
  CHECK(recording.problem == "problem_size=20000000");
  CHECK(recording.recorded_at == "2023-01-26");
  CHECK(recording.space.size() == 4092);
  CHECK(recording.space.cartesian_size() == 4092);
  CHECK(std::count_if(recording.trials.begin(), recording.trials.end(),
                      [](const RecordedTrial& t) { return t.outcome == Outcome::launch_failed; }) == 318);
  CHECK(std::count_if(recording.trials.begin(), recording.trials.end(),
                      [](const RecordedTrial& t) { return t.outcome == Outcome::ok; }) == 3774);
  CHECK(recording.optimum_us() == doctest::Approx(8714.240169525146).epsilon(1e-6));
  const RecordedTrial& best = trial(recording, "between_method=0,block_size_x=64,tile_size=20,use_method=0");
  CHECK(best.time_us == static_cast<float>(8714.240169525146));
  CHECK(best.samples_us.size() == 10);
  const RecordedTrial& other = trial(recording, "between_method=3,block_size_x=96,tile_size=4,use_method=2");
  CHECK(other.time_us == static_cast<float>(13976.976108551025));
  CHECK(other.samples_us.front() == static_cast<float>(13477.888107299805));
  CHECK(trial(recording, "between_method=0,block_size_x=544,tile_size=20,use_method=1").outcome ==
        Outcome::launch_failed);
}

TEST_CASE("gzip that is cut off or damaged is refused") {
  const std::filesystem::path path = paths::source("tests/data/pnpoly_RTX_3090.json.gz");
  std::string bytes = read_whole_file(path);
  CHECK_THROWS_WITH_AS(parse_recording(bytes.substr(0, bytes.size() / 2), "half.gz"),
                       "half.gz: the gzip data end too early", BadInput);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x55);
  CHECK_THROWS_AS(parse_recording(bytes, "flipped.gz"), BadInput);
}

TEST_CASE("gzip of several members is one file, of more than ten thousand it is refused") {
  constexpr char kEmpty[] = "\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0";
  const std::string empty(kEmpty, sizeof kEmpty - 1);
  const std::string bytes = read_whole_file(paths::source("tests/data/pnpoly_RTX_3090.json.gz"));
  std::string members;
  for (int i = 0; i < 9'999; ++i) members += empty;
  CHECK(decompress(members + bytes, "many.gz") == decompress(bytes, "one.gz"));
  CHECK_THROWS_WITH_AS(decompress(members + empty + bytes, "many.gz"),
                       "many.gz: its gzip data have more than 10,000 members; compress it as one", BadInput);
}

TEST_CASE("problem sizes that are tuples are still one value") {
  std::string text = kHead + kRows + "}}";
  text.replace(text.find("[4096, 128]"), 11, "[\"(4096, 128)\", \"(64,)\"]");
  CHECK(parse(text).problem == "problem_size=4096x128x64");
}
