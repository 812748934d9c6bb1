// Files from somebody else: none of them hangs the tool, crashes it or takes over the terminal.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "replay/recording_format.h"
#include "replay/shipped.h"
#include "tests/cli/tool.h"
#include "tests/sanitized.h"

using namespace moetune::testing;
namespace fs = std::filesystem;

namespace {

// The text of a shipped recording of decode_attention, with `from` replaced once.
std::string altered_recording(const std::string& from, const std::string& to) {
  return replaced(moetune::format_recording(moetune::list_shipped_recordings().front().read()), from, to);
}

std::string refusal(Tool& tool, const std::string& recording) {
  const Ended ended =
      tool.run({"search", "--device", "replay:" + tool.path(recording).string(), "--budget", "4", "--no-cache"});
  CHECK(ended.code == 2);
  return ended.err;
}

}  // namespace

TEST_CASE("every file that a user names is opened by kind: no pipe is waited for") {
  Tool tool;
  const std::string pipe = tool.path("pipe").string(), db = tool.path("c.db").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  tool.write("list.json", R"({"moetune_workloads": 1, "workloads": [{"kernel": "decode_kernel"}]})");
  fs::create_directory(tool.path("misses"));
  const std::vector<std::string> serve = {"serve", "--listen", "127.0.0.1:0",   "--cache",
                                          db,      "--device", "replay:shipped"};
  const std::vector<std::string> far = {"search", "decode_kernel", "--server", "https://127.0.0.1:1"};
  const std::vector<std::string> sync = {"sync", "https://127.0.0.1:1", tool.path("misses").string(), "--once"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::vector<std::vector<std::string>> commands = {
      {"retune", "--workloads", tool.path("list.json").string(), "--cache", db, "--log", pipe},
      {"retune", "--workloads", pipe, "--cache", db},
      {"tune", "--workloads", pipe, "--cache", db},
      {"workloads", "from-config", pipe, "--out", tool.path("o.json").string()},
      {"search", "--device", "replay:" + pipe, "--cache", db},
      {"search", "--from-misses", pipe, "--cache", db},
      {"search", "decode_attention", "--cache", pipe},
      {"report", "--cache", pipe},
      {"report", "router", "--tokens", "64", "--ncu", pipe},
      {"cache", "check", pipe},
      {"cache", "sign", pipe, "--key", pipe},
      with(serve, {"--tls-cert", pipe, "--tls-key", pipe}),
      with(serve, {"--token-file", pipe}),
      with(serve, {"--queue", pipe}),
      with(serve, {"--packs", tool.path("misses").string(), "--sign-key", pipe}),
      with(far, {"--ca-file", pipe}),
      with(far, {"--token-file", pipe}),
      with(sync, {"--ca-file", pipe}),
      with(sync, {"--token-file", pipe}),
      with(sync, {"--trust", pipe}),
      {"compare", pipe, pipe}};
  for (const std::vector<std::string>& command : commands) {
    std::string words;
    for (const std::string& word : command) words += word + " ";
    CAPTURE(words);
    const Ended ended = tool.run(command);
    CHECK((ended.code == 2 || ended.code == 3));
    CHECK_MESSAGE(contains(ended.err, pipe + " is not a regular file"), ended.err);
  }
  for (const char* name : {"MOETUNE_LIBCUDA", "MOETUNE_NVRTC", "MOETUNE_LIBNVML"}) {
    CAPTURE(name);
    Tool other({{name, pipe}});
    const Ended ended = other.run({"devices"});
    CHECK(ended.code == 0);
    const bool is_said = contains(ended.out + ended.err, pipe + " is not a regular file");
    CHECK(is_said == (std::string(name) != "MOETUNE_LIBNVML"));  // which is not needed
  }
}

TEST_CASE("no variable of the environment means anything when it is empty") {
  const std::vector<std::string> names = {"MOETUNE_NVRTC",
                                          "CUDA_HOME",
                                          "CUDA_PATH",
                                          "MOETUNE_DATA_DIR",
                                          "COLUMNS",
                                          "NO_COLOR",
                                          "TERM",
                                          "MOETUNE_LIBNVML",
                                          "MOETUNE_REPLAY_PACE_MS",
                                          "MOETUNE_RUNTIME",
                                          "MOETUNE_PIN",
                                          "MOETUNE_TRUSTED_KEYS",
                                          "CUDA_VISIBLE_DEVICES"};
  Tool plain, empty;
  for (const std::string& name : names) empty.set_environment(name, "");
  const auto output_of = [](Tool& tool, const std::vector<std::string>& command) {
    const Ended ended = tool.run(command);
    std::string text = std::to_string(ended.code) + ended.out + ended.err;
    const std::string own = tool.path("").string();
    for (std::size_t at; (at = text.find(own)) != std::string::npos;) text.replace(at, own.size(), "HERE/");
    return text;
  };
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"devices"}, {"space", "decode_kernel", "--arch", "sm_90a"}, {"cache", "ls"}})
    CHECK(output_of(empty, command) == output_of(plain, command));
}

TEST_CASE("the toolkit's stub of the driver, found by LD_LIBRARY_PATH, is named") {
  Tool tool({{"MOETUNE_LIBCUDA", ""}, {"MOETUNE_FAKE_CUDA", "stub"}});
  fs::create_directories(tool.path("stubs"));
  fs::create_symlink(paths::fake_libcuda(), tool.path("stubs/libcuda.so.1"));
  tool.set_environment("LD_LIBRARY_PATH", tool.path("stubs").string());
  const Ended ended = tool.run({"devices"});
  CHECK(ended.code == 0);
  CHECK(contains(ended.out, "stubs/libcuda.so.1 is the CUDA toolkit's stub of the driver"));
  CHECK(contains(ended.out, "LD_LIBRARY_PATH"));
}

TEST_CASE("a recording of a GPU that cannot be is refused, one of values that are unknown now is not compiled") {
  Tool tool;
  tool.write("sms", altered_recording("\"limits\":{\"compute_capability\":90,\"sm_count\":132",
                                      "\"limits\":{\"compute_capability\":90,\"sm_count\":-128"));
  CHECK(contains(refusal(tool, "sms"), "sms: 'sm_count' in limits is -128, not from 1 to 4096"));
  tool.write("math", altered_recording("\"values\":[\"mma16\"", "\"values\":[\"bogus\""));
  const Ended ended =
      tool.run({"search", "--device", "replay:" + tool.path("math").string(), "--budget", "12", "--no-cache"});
  CHECK(ended.code == 0);
  CHECK(contains(ended.err, "nothing is compiled"));
}

TEST_CASE("a pipe in the data folder is no space, and a broken recording there hides no other") {
  Tool tool;
  const fs::path data = tool.copy_data();
  fs::remove(data / "spaces/router.json");
  REQUIRE(::mkfifo((data / "spaces/router.json").c_str(), 0600) == 0);
  fs::create_directories(data / "replay/recordings");
  moetune::write_recording(moetune::list_shipped_recordings().front().read(),
                           data / "replay/recordings/sound.json.zst");
  std::ofstream(data / "replay/recordings/broken.json.zst") << "no recording";
  tool.set_environment("MOETUNE_DATA_DIR", data.string());
  const Ended space = tool.run({"space", "router", "--arch", "sm_90a"});
  CHECK(space.code == 2);
  CHECK(contains(space.err, "router.json is not a regular file"));
  const Ended devices = tool.run({"devices"});
  CHECK(contains(devices.out, "sound"));
  CHECK(contains(devices.out, "broken cannot be read: replay/recordings/broken.json.zst: not a moetune recording"));
  CHECK(tool.run({"search", "--device", "replay:sound", "--budget", "4", "--no-cache", "--no-compile"}).code == 0);
}

TEST_CASE("no control character of a name reaches a terminal, a CSV file, JSON or a log") {
  Tool tool;
  nlohmann::json file = nlohmann::json::parse(read_text(tool.write_recording(3)));
  // ESC, CR, DEL, the one byte that 8-bit terminals take for ESC [, and what turns text around.
  file["device_name"] = "GPU\x1b[2J\r\x7f\u009b31m\u202e";
  tool.write("escapes.json", file.dump());
  const std::string db = tool.path("c.db").string(), device = "replay:" + tool.path("escapes.json").string();
  std::string all = tool.run({"search", "--device", device, "--budget", "9", "--cache", db}).out;
  const std::vector<std::vector<std::string>> commands = {
      {"search", "--device", device, "--budget", "9", "--cache", db, "--json"},
      {"report", "--cache", db, "--csv", tool.path("r.csv").string()},
      {"report", "--cache", db},
      {"report", "--cache", db, "--json"},
      {"cache", "ls", "--cache", db},
      {"cache", "ls", "--cache", db, "--json"},
      {"cache", "check", db},
      {"report", "--cache", db, "saxpy"}};
  for (auto command : commands) {
    const Ended ended = tool.run(command);
    all += ended.out + ended.err;
  }
  CHECK(contains(all, "GPU\\x1b[2J\\x0d\\x7f\\x9b31m\\u202e"));
  const auto is_clean = [](const std::string& text) {
    return std::none_of(text.begin(), text.end(),
                        [](unsigned char c) {
                          return c == 0x1b || c == 0x7f || c == '\r' || (c < 0x20 && c != '\n' && c != '\t');
                        }) &&
           !contains(text, "\xc2\x9b") && !contains(text, "\u202e");
  };
  CHECK(is_clean(all));
  std::string csv = read_text(tool.path("r.csv"));
  CHECK(contains(csv, "GPU\\x1b[2J"));
  for (std::size_t at; (at = csv.find("\r\n")) != std::string::npos;) csv.erase(at, 1);  // CSV's own line ends
  CHECK(is_clean(csv));
}

TEST_CASE("a cache that another process has just made holds nothing so far") {
  Tool tool;
  tool.write("new.db", "");
  const std::string path = tool.path("new.db").string();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"report"}, {"cache", "ls"}, {"cache", "check"}}) {
    std::vector<std::string> command = words;
    command.insert(command.end(), {"--cache", path});
    CHECK(tool.run(command).code == 0);
  }
  CHECK(contains(tool.run({"report", "--cache", path}).out, "Nothing is tuned yet"));
}

TEST_CASE("the shell's limits on files and memory end in a sentence") {
  if (kSanitized) return;  // their shadow memory is beyond any limit
  Tool tool;
  const std::string recording = tool.write_recording(), cache = tool.path("c.db").string();
  const auto limited = [&](const std::string& limit, const std::vector<std::string>& words) {
    std::vector<std::string> command = {"/bin/sh", "-c", "ulimit " + limit + " && exec \"$0\" \"$@\"", tool.binary()};
    command.insert(command.end(), words.begin(), words.end());
    return tool.start_program(command)->wait();
  };
  const std::vector<std::string> search = {"search",  "--device", "replay:" + recording, "--budget", "3",
                                           "--cache", cache};
  const Ended files = limited("-f 40", search);
  CHECK(files.code == 3);
  CHECK(contains(files.err, "cannot grow past the limit of this shell on the size of files"));
  for (int megabytes = 20; megabytes < 60; megabytes += 5) {
    const std::string limit = "-v " + std::to_string(megabytes * 1024);
    CAPTURE(megabytes);
    if (megabytes < 40 && limited(limit, {"--version"}).code != 0) continue;  // too little to load it
    const Ended memory = limited(limit, search);
    CAPTURE(memory.err);
    // So little that there is no room for an exception.
    const bool is_mute = contains(memory.err, "terminate called without an active exception");
    CHECK((memory.code == 0 || memory.code == 3 || (is_mute && megabytes < 40)));
    CHECK((memory.code != 3 || contains(memory.err, "memory") || contains(memory.err, "ulimit")));
  }
}

TEST_CASE("a search without time says that it tried nothing") {
  Tool tool;
  const Ended ended = tool.run({"search", "--device", "replay:" + tool.write_recording(), "--time", "1e-300"});
  CHECK(ended.code == 1);
  CHECK(contains(ended.err, "No trial was started"));
}

TEST_CASE("a search whose configurations are all pruned says so, and asks for no more time") {
  Tool tool;
  nlohmann::json file = nlohmann::json::parse(read_text(tool.write_recording(3)));
  for (auto& row : file["cache"]) row["time"] = "InvalidConfig";
  tool.write("pruned.json", file.dump());
  const Ended ended =
      tool.run({"search", "--device", "replay:" + tool.path("pruned.json").string(), "--budget", "9", "--no-cache"});
  CHECK(ended.code == 1);
  CHECK(contains(ended.err, "No trial was measured: "));
  CHECK(contains(ended.err, " pruned, as --verbose shows"));
  CHECK_FALSE(contains(ended.err, "more time"));
}

TEST_CASE("names that are no line of text are refused before they reach the terminal") {
  Tool tool;
  const nlohmann::json file = nlohmann::json::parse(read_text(tool.write_recording(3)));
  const auto refused = [&](const nlohmann::json& altered) {
    tool.write("names.json", altered.dump());
    return refusal(tool, "names.json");
  };
  nlohmann::json kernel = file, device = file, parameter = file;
  kernel["kernel_name"] = "add\n\nmoetune: all is well";
  CHECK(contains(refused(kernel), "names.json: the kernel's name 'add\\x0a\\x0amoetune: all is well' holds"));
  device["device_name"] = "GPU\nbest 1 us";
  CHECK(contains(refused(device), "the GPU's name 'GPU\\x0abest 1 us' holds a line end"));
  const std::string name = file["tune_params_keys"][0];
  parameter["tune_params_keys"][0] = name + "\x1b[2J";
  parameter["tune_params"][name + "\x1b[2J"] = file["tune_params"][name];
  CHECK(contains(refused(parameter), "the parameter '" + name + "\\x1b[2J' holds a control character"));
}
