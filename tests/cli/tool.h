// The real moetune binary in a folder of its own, as a user on a machine without a GPU runs it.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"
#include "tests/paths.h"
#include "tests/temporary_folder.h"

namespace moetune::testing {

using Json = nlohmann::json;

class Tool {
 public:
  // `environment` adds to and replaces what a user without a GPU has.
  explicit Tool(std::map<std::string, std::string> environment = {}) {
    const char* binary = std::getenv("MOETUNE_BINARY");
    REQUIRE_MESSAGE(binary != nullptr, "MOETUNE_BINARY must name the moetune executable (ctest sets it)");
    binary_ = binary;
    // No driver, whatever the machine has: these tests are of the tool, not of a GPU.
    environment_ = {{"XDG_CACHE_HOME", path("xdg").string()},
                    {"XDG_CONFIG_HOME", path("config").string()},
                    {"HOME", folder_.path().string()},
                    {"LC_ALL", "C.UTF-8"},
                    {"MOETUNE_LIBCUDA", path("no-libcuda").string()}};
    for (auto& [name, value] : environment) environment_[name] = std::move(value);
  }
  Tool& operator=(const Tool&) = delete;

  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  std::unique_ptr<Process> start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), binary_);
    return start_program(arguments);
  }
  // Another program with the same environment.
  std::unique_ptr<Process> start_program(const std::vector<std::string>& command) {
    return std::make_unique<Process>(command, environment_, path("run" + std::to_string(runs_++)));
  }
  void set_environment(const std::string& name, std::string value) { environment_[name] = std::move(value); }
  const std::string& binary() const { return binary_; }
  Ended run(std::vector<std::string> arguments) { return start(std::move(arguments))->wait(); }

  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }

  // The templates and spaces to edit, as MOETUNE_DATA_DIR takes them. Returns their folder.
  std::filesystem::path copy_data() const {
    namespace fs = std::filesystem;
    fs::create_directories(path("data"));
    for (const std::string name : {"templates", "spaces"}) {
      fs::copy(fs::path(paths::source()) / name, path("data") / name, fs::copy_options::recursive);
    }
    return path("data");
  }

  // From now on only what meets `expression` too is legal for `kernel`, as a folder from copy_data() has it.
  static void constrain(const std::filesystem::path& data, const std::string& kernel, const std::string& expression) {
    const std::filesystem::path file = data / "templates" / kernel / "kernel.json";
    nlohmann::json space = nlohmann::json::parse(read_text(file));
    space["constraints"].push_back({{"expr", expression}, {"why", "few, for a test"}});
    std::ofstream(file) << space.dump();
  }

  // A Kernel Tuner cache file of `columns` x 100 configurations (x, y) whose best, 1 ms, is x=7, y=42; every
  // 11th y fails to compile. Returns its path.
  std::string write_recording(int columns = 20) const {
    nlohmann::json cache = nlohmann::json::object();
    std::vector<int> xs, ys;
    for (int x = 0; x < columns; ++x) xs.push_back(x);
    for (int y = 0; y < 100; ++y) ys.push_back(y);
    for (const int x : xs) {
      for (const int y : ys) {
        nlohmann::json entry = {{"x", x}, {"y", y}};
        if (y % 11 == 3) {
          entry["time"] = "CompilationFailedConfig";
        } else {
          entry["time"] = 1.0 + 0.1 * std::abs(x - 7) + 0.01 * std::abs(y - 42);
        }
        cache[std::to_string(x) + "," + std::to_string(y)] = entry;
      }
    }
    const nlohmann::json file = {{"device_name", "Test GPU"},
                                 {"kernel_name", "saxpy"},
                                 {"problem_size", 1000},
                                 {"tune_params_keys", {"x", "y"}},
                                 {"tune_params", {{"x", xs}, {"y", ys}}},
                                 {"objective", "time"},
                                 {"cache", cache}};
    write("saxpy.json", file.dump());
    return path("saxpy.json").string();
  }

 private:
  TemporaryFolder folder_;
  std::map<std::string, std::string> environment_;
  std::string binary_;
  int runs_ = 0;
};

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Exactly one JSON document, whole stdout.
inline nlohmann::json document(const Ended& ended) {
  INFO(ended.out << "\n" << ended.err);
  REQUIRE(nlohmann::json::accept(ended.out));
  return nlohmann::json::parse(ended.out);
}

}  // namespace moetune::testing
