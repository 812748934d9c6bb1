// The routes of a service: from a request to a response, by the queue, the scheduler, the event log, the cache and the
// packs. serve/openapi.json describes them, and a test holds the two together.
//
// Thread-safe. Owns nothing: its parts must outlive it. Every mistake of a client's is a status with one sentence.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/api/access.h"
#include "serve/api/pack_shelf.h"
#include "serve/run/scheduler.h"
#include "serve/run/served_devices.h"

namespace moetune {

struct ApiParts {
  JobQueue& queue;
  Scheduler& scheduler;
  EventLog& log;
  Metrics& metrics;
  Access& access;
  PackShelf& shelf;
  CacheChoice cache;
  JobLimits limits;
  std::vector<std::string> devices;
  std::vector<ServedDevice> served;  // the same, with what they are
  std::function<std::size_t()> connections;
  std::function<std::uint64_t()> closed_connections;
};

struct ApiLimits {
  double submits_burst = 200, submits_per_minute = 600;  // of a client's address
  double misses_burst = 20, misses_per_minute = 60;
  double logins_burst = 10, logins_per_minute = 10;
  double wrong_tokens_burst = 20, wrong_tokens_per_minute = 10;
};

class Api {
 public:
  explicit Api(ApiParts parts, const ApiLimits& limits = {});

  ServerResponse handle(const ServerRequest& request);
  // Refuses from the headers alone; nullopt if the body must be read.
  std::optional<ServerResponse> refuse_head(const ServerRequest& request);
  // How many bytes its body may have: few, unless it is a POST of who may do something.
  static std::uint64_t most_body(const ServerRequest& request);
  // Completes and counts an answer that was not made here.
  void complete(ServerResponse& response);
  // Whether a request touches no file, so that it needs no thread of its own.
  static bool is_quick(const ServerRequest& request);

  struct Route {
    const char* method;
    const char* path;  // "/v1/jobs/{id}"
    ClientRole role;   // that a client needs
    ServerResponse (Api::*answer)(const ServerRequest& request, const std::string& parameter);
  };
  static const std::vector<Route>& routes();

 private:
  // The route of a request, and the parameter in its path. Throws Refusal if the client may not use it.
  std::pair<const Route*, std::string> find_route(const ServerRequest& request);
  // Throws the Refusal of a client without a role: slower and slower to come for one that tries tokens.
  [[noreturn]] void refuse_stranger(const ServerRequest& request);
  ServerResponse submit(const ServerRequest& request, const std::string&);
  ServerResponse list(const ServerRequest& request, const std::string&);
  ServerResponse show(const ServerRequest& request, const std::string& id);
  ServerResponse cancel(const ServerRequest& request, const std::string& id);
  ServerResponse withdraw(const ServerRequest& request, const std::string& id);
  ServerResponse ended(const ServerRequest& request, const std::string&);
  ServerResponse events(const ServerRequest& request, const std::string&);
  ServerResponse winners(const ServerRequest& request, const std::string&);
  ServerResponse packs(const ServerRequest& request, const std::string&);
  ServerResponse pack(const ServerRequest& request, const std::string& name);
  ServerResponse signature(const ServerRequest& request, const std::string& name);
  ServerResponse misses(const ServerRequest& request, const std::string&);
  ServerResponse devices(const ServerRequest& request, const std::string&);
  ServerResponse health(const ServerRequest& request, const std::string&);
  ServerResponse ready(const ServerRequest& request, const std::string&);
  ServerResponse metrics(const ServerRequest& request, const std::string&);
  ServerResponse openapi(const ServerRequest& request, const std::string&);
  ServerResponse page(const ServerRequest& request, const std::string&);
  ServerResponse page_file(const ServerRequest& request, const std::string& name);
  ServerResponse login(const ServerRequest& request, const std::string&);

  static constexpr double kLongestWait = 7 * 24 * 3600;  // seconds in which a job ends that says nothing else

  JobRecord record_of(const nlohmann::json& body) const;
  Document document_of(const JobRecord& job) const;
  struct Miss {
    std::string kernel, problem, hardware;  // "" for hardware that is not said
    double count = 0;
  };
  static Miss miss_of(const nlohmann::json& json);
  JobRecord job_of(const Miss& miss) const;

  const ApiParts parts_;
  RateLimit submits_, misses_, logins_, wrong_tokens_;
};

}  // namespace moetune
