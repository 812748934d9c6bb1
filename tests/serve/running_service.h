// A service on a free port of the loopback, on made-up recordings, in a folder of its own; and a client of it.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "serve/http_client.h"
#include "serve/service.h"
#include "tests/sanitized.h"

namespace moetune::testing {

using Json = nlohmann::json;

// 2,000 trials of a recording, which take 0.7 s, take 40 s while this lives: longer than any test waits.
class SlowTrials {
 public:
  explicit SlowTrials(int milliseconds = 20) {
    setenv("MOETUNE_REPLAY_PACE_MS", std::to_string(milliseconds).c_str(), 1);
  }
  ~SlowTrials() { unsetenv("MOETUNE_REPLAY_PACE_MS"); }
  SlowTrials(const SlowTrials&) = delete;
};

class RunningService {
 public:
  RunningService() {
    std::string pattern = (std::filesystem::temp_directory_path() / "moetune-serve-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    folder = pattern;
    write_recording();
    options.devices = {"replay:" + (folder / "saxpy.json").string()};
    options.cache.path = (folder / "cache.db").string();
  }
  ~RunningService() {
    service.reset();
    std::filesystem::remove_all(folder);
  }
  RunningService(const RunningService&) = delete;

  void start() { service.emplace(options); }
  void restart() {
    service.reset();
    start();
  }

  // 20 x 100 configurations of Kernel Tuner's; the best, 1 ms, is x=7, y=42.
  void write_recording() const {
    Json cache = Json::object();
    std::vector<int> xs, ys;
    for (int x = 0; x < 20; ++x) xs.push_back(x);
    for (int y = 0; y < 100; ++y) ys.push_back(y);
    for (const int x : xs) {
      for (const int y : ys)
        cache[std::to_string(x) + "," + std::to_string(y)] = {
            {"x", x}, {"y", y}, {"time", 1.0 + 0.1 * std::abs(x - 7) + 0.01 * std::abs(y - 42)}};
    }
    const Json file = {{"device_name", "Test GPU"},
                       {"kernel_name", "saxpy"},
                       {"problem_size", 1000},
                       {"tune_params_keys", {"x", "y"}},
                       {"tune_params", {{"x", xs}, {"y", ys}}},
                       {"objective", "time"},
                       {"cache", cache}};
    std::ofstream(folder / "saxpy.json") << file.dump();
  }

  HttpRequest request(const std::string& method, const std::string& path,
                      const std::string& body = "") const {
    HttpRequest request{
        .method = method, .url = service->url() + path, .headers = headers, .body = body, .ca_file = ca};
    if (method == "POST") request.headers.emplace_back("Content-Type", "application/json");
    return request;
  }
  HttpResponse ask(const std::string& method, const std::string& path, const std::string& body = "") const {
    return http_request(request(method, path, body));
  }
  Json get(const std::string& path) const {
    const HttpResponse response = ask("GET", path);
    INFO(response.body);
    REQUIRE(response.status == 200);
    return Json::parse(response.body);
  }
  Json submit(const Json& fields, const Json& more = Json::object()) const {
    Json body = {{"kind", "search"}, {"request", fields}};
    body.update(more);
    const HttpResponse response = ask("POST", "/v1/jobs", body.dump());
    INFO(response.body);
    REQUIRE((response.status == 201 || response.status == 200));
    return Json::parse(response.body);
  }
  Json ended(std::int64_t id) const {
    for (int tries = 0; tries < (kSanitized ? 12'000 : 2'400); ++tries) {
      Json job = get("/v1/jobs/" + std::to_string(id));
      if (job["state"] != "queued" && job["state"] != "running") return job;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    FAIL("job " << id << " does not end");
    return nullptr;
  }
  bool reaches(std::int64_t id, const std::string& state) const {
    for (int tries = 0; tries < 1'000; ++tries) {
      if (get("/v1/jobs/" + std::to_string(id))["state"] == state) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  std::filesystem::path folder;
  ServiceOptions options;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string ca;
  std::optional<Service> service;
};

}  // namespace moetune::testing
