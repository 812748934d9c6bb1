// A service on a free port of the loopback, on made-up recordings, in a folder of its own; and a client of it.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cache/pack_signature.h"
#include "http/http_client.h"
#include "serve/service.h"
#include "tests/temporary_folder.h"
#include "tests/within_a_while.h"

namespace moetune::testing {

using Json = nlohmann::json;

// 2,000 trials of a recording, which take 0.7 s, take 100 s if this lives when their job begins: longer than any test
// takes. To be made and destroyed while no service runs, because its threads read the environment.
class SlowTrials {
 public:
  explicit SlowTrials(int milliseconds = 50) {
    setenv("MOETUNE_REPLAY_PACE_MS", std::to_string(milliseconds).c_str(), 1);
  }
  ~SlowTrials() { unsetenv("MOETUNE_REPLAY_PACE_MS"); }
  SlowTrials(const SlowTrials&) = delete;
};

class RunningService {
 public:
  RunningService() {
    write_recording();
    options.devices = {"replay:" + (folder / "saxpy.json").string()};
    options.cache.path = (folder / "cache.db").string();
  }
  ~RunningService() { service.reset(); }
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

  HttpRequest request(const std::string& method, const std::string& path, const std::string& body = "") const {
    HttpRequest request{
        .method = method, .url = service->url() + path, .headers = headers, .body = body, .ca_file = ca};
    request.max_bytes = kMostPackBytes;
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
  Json job(std::int64_t id) const { return get("/v1/jobs/" + std::to_string(id)); }
  // The job once it has ended.
  // Submitted, and running.
  Json started(const Json& fields) const {
    Json job = submit(fields);
    REQUIRE(reaches(job["id"], "running"));
    return job;
  }
  Json ended(std::int64_t id) const {
    Json last;
    const bool has_ended = within_a_while([&] {
      last = job(id);
      return last["state"] != "queued" && last["state"] != "running";
    });
    REQUIRE_MESSAGE(has_ended, "job " << id << " does not end");
    return last;
  }
  bool reaches(std::int64_t id, const std::string& state) const {
    return within_a_while([&] { return job(id)["state"] == state; });
  }
  // Whether a running job comes to have measured so many.
  bool measures(std::int64_t id, int trials) const {
    return within_a_while([&] {
      const Json progress = job(id)["progress"];
      return progress.is_object() && progress.value("trials", 0) >= trials;
    });
  }
  // Whether its devices come to have no job: that is a moment after a job has ended.
  bool becomes_idle() const {
    return within_a_while([&] {
      const Json devices = get("/v1/devices")["devices"];
      return std::all_of(devices.begin(), devices.end(), [](const Json& one) { return one["job"].is_null(); });
    });
  }
  // What the event stream says from its first event until `enough`.
  std::string events_until(const std::function<bool(const std::string&)>& enough,
                           const std::string& path = "/v1/events") const {
    HttpRequest stream = request("GET", path);
    stream.headers.emplace_back("Last-Event-ID", "0");
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    std::string text;
    http_stream(stream, [&](std::string_view piece) {
      text += piece;
      return !enough(text) && std::chrono::steady_clock::now() < limit;
    });
    return text;
  }

  TemporaryFolder folder;
  ServiceOptions options;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string ca;
  std::optional<Service> service;
};

}  // namespace moetune::testing
