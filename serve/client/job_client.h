// A client of a service: submits a job, plays its events to a listener, and waits for its end.
//
// Stateless; blocks its caller's thread, which is the listener's too. Errors: what the job failed with, as the local
// job would throw it (BadField, BadInput, BrokenEnvironment); BrokenEnvironment if the service cannot be reached.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "http/http_client.h"
#include "jobs/session/documents.h"
#include "jobs/session/job.h"

namespace moetune {

struct FinishedJob {
  std::int64_t id = 0;
  Document result;  // of a job that is done, and what one had when it was stopped: null if it had not begun
  int exit_code = 0;
};

class JobClient {
 public:
  explicit JobClient(ServiceAddress address);

  // Submits, or joins an equal job. A stop request withdraws the job and waits for what it had. Goes on over a restart
  // of the service. Throws as the local job does, and BrokenEnvironment for what is no service of this version.
  FinishedJob run(const std::string& kind, const nlohmann::json& request, const JobContext& context) const;

 private:
  FinishedJob submit_and_follow(const std::string& kind, const nlohmann::json& request,
                                const JobContext& context) const;
  nlohmann::json ask(const std::string& method, const std::string& path, const std::string& body = "") const;
  nlohmann::json follow(std::int64_t id, const std::string& ticket, const JobContext& context) const;
  bool watch(std::int64_t id, std::string& last_event, const JobContext& context) const;

  const ServiceAddress address_;
};

}  // namespace moetune
