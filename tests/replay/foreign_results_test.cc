// Other tuners' results, file by file: what a search of each is given. tests/replay/kernel_tuner has files as Kernel
// Tuner leaves them, whole, cut off and damaged.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "replay/compressed_file.h"
#include "replay/recording.h"
#include "tests/paths.h"
#include "tests/refusal.h"

using namespace moetune;
namespace fs = std::filesystem;

namespace {

struct CacheCase {
  const char* file;
  const char* objective;  // as a user gives it
  const char* error;      // in the message; "" if the file is read
  const char* best;       // its configuration
  double figure;          // the best time in microseconds, or the best figure of another objective
  std::size_t rows, ok;
};

constexpr CacheCase kCaches[] = {
    {"bom", "", "", "bx=32", 1000, 2, 2},
    {"crlf", "", "", "bx=32", 1000, 2, 2},
    {"closed_then_appended", "", "parse error at line 22, column 4", "", 0, 0, 0},
    {"device_empty", "", "", "bx=16", 2000, 1, 1},
    {"device_slash", "", "", "bx=16", 2000, 1, 1},
    {"dotted_ms_negative", "", "the row '16' has a time of -1 ms", "", 0, 0, 0},
    {"duplicate_value", "", "'bx' has the value 32 twice", "", 0, 0, 0},
    {"empty_cache_open", "", "the cache holds no whole row", "", 0, 0, 0},
    {"error_key_140", "", "", "bx=64,by=1", 1000, 5, 2},
    {"huge_int", "", "", "n=1180591620717411303424", 1000, 3, 3},
    {"inf_time", "", "", "bx=16", 2000, 3, 1},
    {"kernel_list", "", "", "bx=16", 2000, 1, 1},
    {"kernel_template", "", "", "bx=16", 2000, 1, 1},
    {"kernel_unicode", "", "", "bx=16", 2000, 1, 1},
    {"killed_in_header", "", "parse error at line 4, column 10", "", 0, 0, 0},
    {"killed_then_resumed", "", "parse error at line 21, column 5", "", 0, 0, 0},
    {"missing_param", "", "tune_params has no values for 'by'", "", 0, 0, 0},
    {"nan_power", "", "", "bx=32", 1000, 3, 3},
    {"nan_power", "nvml_power:min", "", "bx=32", 3, 3, 1},
    {"none_negative_float", "", "", "x=1e-05,y=True", 1000, 3, 3},
    {"nul_tail", "", "", "bx=32", 1000, 3, 3},
    {"objective_list_150", "", "has the objectives 'time', 'energy', and a search takes one of them: time or energy",
     "", 0, 0, 0},
    {"objective_list_150", "time", "", "bx=32", 1000, 2, 2},
    {"objective_list_150", "energy", "", "bx=16", 1, 2, 2},
    {"objective_list_150", "energy:max", "", "bx=32", 9, 2, 2},
    {"objective_score_no_time", "", "", "bx=32", 0.7, 2, 2},
    {"objective_score_no_time", "score:min", "", "bx=16", 0.5, 2, 2},
    {"objective_score_no_time", "scores", "has a figure 'scores'; unknown figure 'scores'; did you mean 'score'?", "",
     0, 0, 0},
    {"objective_score_no_time", "time", "has a figure 'time'; unknown figure 'time'", "", 0, 0, 0},
    {"old_keys_missing_param_in_space", "",
     "the cache key '32' gives 'bx' the value '32', which tune_params does not have", "", 0, 0, 0},
    {"open_comma", "", "", "bx=32", 1000, 3, 3},
    {"open_nocomma", "", "", "bx=32", 1000, 3, 3},
    {"open_one_brace", "", "", "bx=32", 1000, 3, 3},
    {"param_equals", "", "", "flags=--maxrregcount=64", 1000, 2, 2},
    {"param_space", "", "", "block size=16", 2000, 1, 1},
    {"problem_int", "", "", "bx=16", 2000, 1, 1},
    {"problem_nested", "", "", "bx=16", 2000, 1, 1},
    {"problem_string", "", "", "bx=16", 2000, 1, 1},
    {"single_value", "", "", "bx=32,fixed=7", 1000, 2, 2},
    {"string_with_comma", "", "", "layout=c", 1000, 2, 2},
    {"time_string_number", "", "", "bx=32", 1000, 2, 1},
    {"times_strings", "", "", "bx=32", 1000, 2, 2},
    {"tuple_values", "", "", "tile=(32;8),bx=2", 1000, 2, 2},
    {"two_processes", "", "parse error at line 21, column 0", "", 0, 0, 0},
    {"utf16", "", "parse error at line 1, column 1", "", 0, 0, 0},
    {"value_newline", "", "holds a line end or a tab", "", 0, 0, 0},
};

void check_recording(const CacheCase& one, const Recording& recording) {
  CHECK(recording.space.size() == one.rows);
  std::size_t ok = 0;
  ConfigId best = 0;
  for (ConfigId id = 0; id < recording.space.size(); ++id) {
    const RecordedTrial& trial = recording.trials[id];
    if (trial.outcome != Outcome::ok) continue;
    if (ok == 0 || trial.time_us < recording.trials[best].time_us) best = id;
    ++ok;
  }
  CHECK(ok == one.ok);
  CHECK(recording.space.config(best).text() == one.best);
  REQUIRE(recording.objective);
  if (recording.objective->is_time()) {
    CHECK(recording.trials[best].time_us == one.figure);
  } else {
    CHECK(recording.objective->figure(best) == one.figure);
    CHECK(recording.objective->best == one.figure);
  }
}

std::string read_error(const std::string& text, const std::string& objective = "") {
  return refusal_of([&] { parse_recording(text, "r.json", objective); });
}

const RecordedTrial& trial_of(const Recording& recording, const std::string& config) {
  const std::optional<ConfigId> id = recording.space.find_text(config);
  REQUIRE_MESSAGE(id, config);
  return recording.trials[*id];
}

// A cache of two parameters with these rows.
std::string cache_of(const std::string& rows, const std::string& more = "", const std::string& values = "") {
  return R"({"device_name": "G", "kernel_name": "k", "problem_size": [1], "tune_params_keys": ["x", "y"], )" + more +
         R"("tune_params": {"x": [)" + (values.empty() ? "1, 2, 3" : values) + R"(], "y": ["a", "b"]}, "cache": {)" +
         rows + "}}";
}

}  // namespace

TEST_CASE("each of Kernel Tuner's files gives its rows and its best, or the reason") {
  std::set<std::string> tried;
  for (const CacheCase& one : kCaches) {
    CAPTURE(one.file);
    CAPTURE(one.objective);
    tried.insert(one.file);
    const fs::path path = paths::source("tests/replay/kernel_tuner/" + std::string(one.file) + ".json");
    std::string error;
    try {
      check_recording(one, read_recording(path, one.objective));
    } catch (const BadInput& failure) {
      error = failure.what();
    }
    CHECK(error.empty() == std::string(one.error).empty());
    CHECK_MESSAGE(error.find(one.error) != std::string::npos, error);
  }
  for (const auto& entry : fs::directory_iterator(paths::source("tests/replay/kernel_tuner")))
    CHECK_MESSAGE(tried.contains(entry.path().stem().string()), entry.path());
}

TEST_CASE("failures keep their kind, whichever way the cache writes them") {
  const Recording recording = read_recording(paths::source("tests/replay/kernel_tuner/error_key_140.json"));
  CHECK(trial_of(recording, "bx=16,by=2").outcome == Outcome::compile_failed);
  CHECK(trial_of(recording, "bx=32,by=1").outcome == Outcome::pruned);
  CHECK(trial_of(recording, "bx=32,by=2").outcome == Outcome::launch_failed);
  CHECK(trial_of(recording, "bx=32,by=2").message == "RuntimeFailedConfig");
  // Of another objective too, in whatever field; null is none.
  const std::string rows = R"("1,a": {"time": 1, "GFLOP/s": "CompilationFailedConfig"},
    "2,a": {"time": 1, "GFLOP/s": 4, "__error__": null}, "3,a": {"GFLOP/s": 5, "__error__": {"type": "x"}})";
  const Recording rates = parse_recording(cache_of(rows), "r.json", "GFLOP/s");
  CHECK(trial_of(rates, "x=1,y=a").outcome == Outcome::compile_failed);
  CHECK(trial_of(rates, "x=2,y=a").outcome == Outcome::ok);
  CHECK(trial_of(rates, "x=3,y=a").outcome == Outcome::launch_failed);
}

TEST_CASE("a time that nobody measured costs its row, not the file") {
  for (const char* time :
       {"0", "0.0", "1e20", "NaN", "Infinity", "-Infinity", "null", "1e-12", "1e12", "\"\"", "[1]"}) {
    CAPTURE(time);
    const Recording recording = parse_recording(
        cache_of(R"("1,a": {"time": )" + std::string(time) + R"(}, "2,a": {"time": 3, "times": [3, 3]})"), "r.json");
    CHECK(trial_of(recording, "x=1,y=a").outcome == Outcome::launch_failed);
    CHECK(trial_of(recording, "x=2,y=a").time_us == 3000);
    CHECK(recording.optimum_us() == 3000);
  }
  for (const char* samples : {"[0.0, 1]", "[-1]", "[NaN]", "[1, Infinity]", "[1e-12]"}) {
    CAPTURE(samples);
    const Recording recording = parse_recording(
        cache_of(R"("1,a": {"time": 1, "times": )" + std::string(samples) + R"(}, "2,a": {"time": 3})"), "r.json");
    CHECK(trial_of(recording, "x=1,y=a").outcome == Outcome::launch_failed);
    CHECK(trial_of(recording, "x=1,y=a").message.starts_with("recorded with a sample of"));
    CHECK(trial_of(recording, "x=1,y=a").samples_us.empty());
    CHECK(recording.optimum_us() == 3000);
  }
  CHECK(read_error(cache_of(R"("1,a": {"time": -2})")) == "r.json: the row '1,a' has a time of -2 ms");
}

TEST_CASE("NaN and Infinity within texts stay text") {
  const Recording recording = parse_recording(
      cache_of(
          R"("1,a": {"time": 1}, "NaN,a": {"x": "NaN", "time": 2}, "\"-Infinity,a": {"x": "\"-Infinity", "time": 3})",
          "", R"(1, "NaN", "\"-Infinity")"),
      "r.json");
  CHECK(trial_of(recording, "x=NaN,y=a").time_us == 2000);
  CHECK(trial_of(recording, "x=\"-Infinity,y=a").time_us == 3000);
  CHECK(read_error(cache_of(R"("1,a": {"time": Nan})")).starts_with("r.json: parse error"));
  CHECK(read_error(cache_of(R"("1,a": {"time": NaNaN})")).starts_with("r.json: parse error"));
}

TEST_CASE("a row's values are those that it names, and else those of its key") {
  // The key has one decimal, the list the nearest 32-bit float, the row what Python prints.
  const std::string values = "0.10000000149011612, 0.2, 3";
  const Recording recording =
      parse_recording(cache_of(R"("0.1,a": {"time": 1}, "0.2,a": {"x": 0.20000000000000001, "y": "a", "time": 2},
    "3.0,b": {"time": 4}, "9,9": {"x": 3, "y": "a", "time": 5})",
                               "", values),
                      "r.json");
  CHECK(recording.space.size() == 4);
  CHECK(trial_of(recording, "x=0.10000000149011612,y=a").time_us == 1000);
  CHECK(trial_of(recording, "x=0.2,y=a").time_us == 2000);
  CHECK(trial_of(recording, "x=3,y=b").time_us == 4000);
  CHECK(trial_of(recording, "x=3,y=a").time_us == 5000);
  CHECK(read_error(cache_of(R"("0.1001,a": {"time": 1})", "", values)) ==
        "r.json: the cache key '0.1001,a' gives 'x' the value '0.1001', which tune_params does not have");
  CHECK(read_error(cache_of(R"("0.1,a": {"time": 1})", "", "0.10000000001, 0.10000000002"))
            .ends_with("which tune_params does not have"));
}

TEST_CASE("a key with commas in its values is read if there is one way to") {
  const std::string values = R"("p,q", "r", [1, 2])";
  const Recording recording = parse_recording(
      cache_of(R"("p,q,a": {"time": 1}, "r,b": {"time": 2}, "(1, 2),b": {"time": 3}, "[1, 2],a": {"time": 4})", "",
               values),
      "r.json");
  CHECK(trial_of(recording, "x=p;q,y=a").time_us == 1000);
  CHECK(trial_of(recording, "x=r,y=b").time_us == 2000);
  CHECK(trial_of(recording, "x=(1;2),y=b").time_us == 3000);
  CHECK(trial_of(recording, "x=(1;2),y=a").time_us == 4000);
  const auto two = [](const std::string& key) {
    return R"({"tune_params_keys": ["x", "y"], "tune_params": {"x": ["a", "a,b"], "y": ["c", "b,c"]}, "cache": {")" +
           key + R"(": {"time": 1}}})";
  };
  CHECK(read_error(two("a,b,c")).ends_with("has 3 values for 2 parameters, and can be read in several ways"));
  CHECK(read_error(two("a,b,b,c")) == "");
  CHECK(read_error(two("a,c,c")).ends_with("has 3 values for 2 parameters"));
  CHECK(read_error(two("a")).ends_with("has 1 values for 2 parameters"));
  CHECK(read_error(cache_of(R"("1,a": {"time": 1})", "", R"(1, "p,q", "p;q")")) ==
        "r.json: two values of 'x' both read as 'p;q', with semicolons for commas");
  std::string commas(60'000, ',');
  const std::string many =
      R"({"tune_params_keys": ["x", "y"], "tune_params": {"x": ["", ","], "y": ["", ","]}, "cache": {)" +
      ('"' + commas + "\": {\"time\": 1}}}");
  CHECK(read_error(many) != "");
}

TEST_CASE("keys in another order, as a program writes them that sorts, change nothing") {
  const Recording recording = parse_recording(
      R"({"cache": {"1,a": {"time": 2, "x": 1, "y": "a"}, "2,b": {"energy": 3, "time": 1}}, "device_name": "G",
          "kernel_name": "k", "objective": "energy", "problem_size": 5,
          "tune_params": {"x": [1, 2], "y": ["a", "b"]}, "tune_params_keys": ["x", "y"]})",
      "r.json", "");
  CHECK(recording.objective->name == "energy");
  CHECK(recording.objective->best == 3);
  CHECK(recording.hardware.name == "G");
  CHECK(trial_of(recording, "x=1,y=a").message == "recorded without a energy");
}

TEST_CASE("the file's own objective is taken, in its own direction, or refused by its name") {
  const std::string rows =
      R"("1,a": {"time": 1, "speed": 5, "GFLOP/s": 7, "energy": 2},
        "2,a": {"time": 2, "speed": 9, "GFLOP/s": 8, "energy": 1})";
  const auto own = [&](const std::string& more) { return parse_recording(cache_of(rows, more), "r.json", ""); };
  CHECK(own("").objective->name == "time");
  CHECK(own(R"("objective": null,)").objective->name == "time");
  CHECK(own(R"("objective": "",)").objective->name == "time");
  CHECK(own(R"("objective": "GFLOP/s",)").objective->best == 8);
  CHECK(own(R"("objective": "GFLOP/s", "objective_higher_is_better": null,)").objective->best == 8);
  CHECK(own(R"("objective": ["energy"],)").objective->best == 1);
  CHECK(own(R"("objective": "GFLOP/s", "objective_higher_is_better": false,)").objective->best == 7);
  CHECK(own(R"("objective": ["speed"], "objective_higher_is_better": [true],)").objective->best == 9);
  CHECK(read_error(cache_of(rows, R"("objective": "speed",)")) ==
        "objective: r.json is searched for 'speed', and nothing says which is better: speed:max takes the largest, "
        "speed:min the smallest");
  CHECK(parse_recording(cache_of(rows, R"("objective": "speed",)"), "r.json", "speed:min").objective->best == 5);
  CHECK(
      read_error(cache_of(rows, R"("objective": "watts", "objective_higher_is_better": false,)")) ==
      "objective: no row of r.json has a figure 'watts'; unknown figure 'watts'; known: GFLOP/s, energy, speed, time");
  CHECK(read_error(cache_of(rows), "x:min") ==
        "objective: no row of r.json has a figure 'x'; unknown figure 'x'; known: GFLOP/s, energy, speed, time");
}

TEST_CASE("costs follow the figures: by their ratio, or where they have both signs by their difference") {
  const auto costs = [](const std::string& a, const std::string& b, const std::string& c, const std::string& wanted) {
    const Recording recording =
        parse_recording(cache_of(R"("1,a": {"s": )" + a + R"(}, "2,a": {"s": )" + b + R"(}, "3,a": {"s": )" + c + "}"),
                        "r.json", wanted);
    return std::vector<float>{recording.trials[0].time_us, recording.trials[1].time_us, recording.trials[2].time_us};
  };
  CHECK(costs("1", "2", "4", "s:min") == std::vector<float>{1000, 2000, 4000});
  CHECK(costs("1", "2", "4", "s:max") == std::vector<float>{4000, 2000, 1000});
  CHECK(costs("-1", "0", "1", "s:max") == std::vector<float>{2000, 1500, 1000});
  CHECK(costs("-1", "-1", "-1", "s:max") == std::vector<float>{1000, 1000, 1000});
  CHECK(costs("1e-300", "1e300", "1", "s:min") == std::vector<float>{1000, 1e10F, 1e10F});
  CHECK(costs("-1e308", "1e308", "0", "s:min")[0] == 1000);
}

TEST_CASE("T4 results: Kernel Tuner's, KTT's and such as convert them") {
  const auto result = [](const std::string& values, const std::string& invalidity, const std::string& measurements,
                         const std::string& more = "") {
    return R"({"configuration": {)" + values + R"(}, "invalidity": ")" + invalidity +
           R"(", "correctness": 1, "times": {"runtimes": [)" + more +
           R"(]}, "objectives": ["time"], "measurements": [)" + measurements + "]}";
  };
  const auto time = [](const std::string& value, const std::string& unit) {
    return R"({"name": "time", "value": )" + value + R"(, "unit": ")" + unit + "\"}";
  };
  const std::string head = R"({"schema_version": "1.0.0", "results": [)";
  const Recording recording =
      parse_recording(head + result(R"("bx": 32, "mode": "b")", "correct", time("2.5", "ms"), "2.25, 2.5") + "," +
                          result(R"("bx": 16, "mode": "a")", "correct", time("1500", "us")) + "," +
                          result(R"("bx": 16, "mode": "b")", "correct", "", "4, 5, 6") + "," +
                          result(R"("bx": 32, "mode": "a")", "compile", time("\"CompilationFailedConfig\"", "ms")) +
                          "," + result(R"("bx": 64, "mode": "a")", "constraints", "") + "," +
                          result(R"("bx": 64, "mode": "b")", "timeout", "") +
                          R"(], "metadata": {"timeunit": "miliseconds", "device": "G", "kernel": "k",
            "timestamp": "2026-03-05 09:04:43 UTC"}})",
                      "r.json", "");
  CHECK(recording.hardware.name == "G");
  CHECK(recording.kernel == "k");
  CHECK(recording.recorded_at == "2026-03-05");
  CHECK(recording.objective->name == "time");
  CHECK(recording.space.parameters()[0].values ==
        std::vector<Value>{Value::integer(16), Value::integer(32), Value::integer(64)});
  CHECK(trial_of(recording, "bx=32,mode=b").time_us == 2500);
  CHECK(trial_of(recording, "bx=32,mode=b").samples_us == std::vector<float>{2250, 2500});
  CHECK(trial_of(recording, "bx=16,mode=a").time_us == 1500);
  CHECK(trial_of(recording, "bx=16,mode=b").time_us == 5000);
  CHECK(trial_of(recording, "bx=32,mode=a").outcome == Outcome::compile_failed);
  CHECK(trial_of(recording, "bx=64,mode=a").outcome == Outcome::pruned);
  CHECK(trial_of(recording, "bx=64,mode=b").outcome == Outcome::timed_out);
  // KTT writes numbers as texts, and the unit in the header alone.
  const Recording ktt = parse_recording(head + result(R"("bx": "32")", "correct", time("90", "")) + "," +
                                            result(R"("bx": "8")", "correct", time("80", "")) +
                                            R"(], "metadata": {"timeunit": "microseconds"}})",
                                        "r.json", "");
  CHECK(ktt.space.parameters()[0].values == std::vector<Value>{Value::integer(8), Value::integer(32)});
  CHECK(ktt.optimum_us() == 80);
  // Without any unit a time is a figure as others are.
  const Recording bare = parse_recording(head + result(R"("bx": 1)", "correct", time("90", "")) + "]}", "r.json", "");
  CHECK_FALSE(bare.objective->is_time());
  CHECK(bare.objective->best == 90);
  CHECK(read_error(head + result(R"("bx": 1)", "correct", "") + "," + result(R"("by": 1)", "correct", "") + "]}") ==
        "r.json: result 2 has a parameter 'by', which those before it lack");
  CHECK(read_error(head + result(R"("bx": 1, "by": 1)", "correct", "") + "," + result(R"("by": 1)", "correct", "") +
                   "]}") == "r.json: result 2 lacks the parameter 'bx'");
  CHECK(read_error(head + "]}") == "r.json: it holds no result");
  CHECK(read_error(head + result(R"("bx": 1)", "correct", time("1", "ms"))).starts_with("r.json: parse error"));
}

TEST_CASE("KTT's results in its own JSON") {
  const auto result = [](int block, const std::string& status, const std::string& duration) {
    return R"({"KernelName": "add", "Status": ")" + status + R"(", "TotalDuration": )" + duration +
           R"(, "ExtraDuration": 0.0, "ComputationResults": [{"Duration": 1.0, "GlobalSize": {"X": 1}}],
             "Configuration": [
             {"Name": "block", "Value": )" +
           std::to_string(block) + R"(, "ValueType": "UnsignedInt"},
             {"Value": 0.5, "ValueType": "Double", "Name": "ratio"}]})";
  };
  const std::string head =
      R"({"Metadata": {"ComputeApi": "CUDA", "Device": "G", "TimeUnit": "Microseconds",
        "Timestamp": "2026-04-21 07:19:6 UTC"}, "Results": [)";
  const Recording recording = parse_recording(
      head + result(64, "Ok", "89.5") + "," + result(32, "Ok", "0.0") + "," + result(128, "ValidationFailed", "3.0") +
          "," + result(256, "CompilationFailed", "0.0") + "," + result(512, "ComputationFailed", "0.0") + "]}",
      "r.json", "");
  CHECK(recording.hardware.name == "G");
  CHECK(recording.kernel == "add");
  CHECK(recording.recorded_at == "2026-04-21");
  CHECK(trial_of(recording, "block=64,ratio=0.5").time_us == 89.5);
  CHECK(trial_of(recording, "block=32,ratio=0.5").outcome == Outcome::launch_failed);
  CHECK(trial_of(recording, "block=128,ratio=0.5").outcome == Outcome::wrong_result);
  CHECK(trial_of(recording, "block=256,ratio=0.5").outcome == Outcome::compile_failed);
  CHECK(trial_of(recording, "block=512,ratio=0.5").outcome == Outcome::launch_failed);
  std::string other = result(2, "Ok", "1");
  other.replace(other.find("add"), 3, "sub");
  CHECK(read_error(head + result(1, "Ok", "1") + "," + other + "]}") ==
        "r.json: result 2 is of the kernel 'sub', and those before it are of 'add'; a recording is of one");
  CHECK(read_error("<?xml version=\"1.0\"?><Results/>").starts_with("r.json: it is XML"));
}

TEST_CASE("what is no results file, and what is too large, is refused by name") {
  CHECK(read_error("{}") ==
        "r.json: neither a moetune recording, nor a cache of Kernel Tuner, nor results in T4's or KTT's JSON");
  CHECK(read_error("[1, 2]").starts_with("r.json: neither"));
  CHECK(read_error(R"({"results": {"a": 1}, "cache": []})").starts_with("r.json: neither"));
  CHECK(read_error("").starts_with("r.json: parse error"));
  CHECK(read_error("PK\x03\x04 and more").starts_with("r.json: it is a ZIP archive"));
  CHECK(read_error(std::string(3000, '\0')).starts_with("r.json: parse error"));
  CHECK(read_error("{\"a\":" + std::string(70, '[') + std::string(70, ']') + "}") ==
        "r.json: its JSON is nested more than 64 deep");
  const std::string huge(20 << 20, 'x');
  CHECK(read_error(R"({"results": [{"configuration": {"a": ")" + huge + "\"}}]}") ==
        "r.json: one of its rows is larger than 16 MiB");
}
