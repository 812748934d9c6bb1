// Jobs that a service runs (docs/service.md), with the events and documents of local ones.
#pragma once

#include <string>

#include "cli/option_table.h"
#include "cli/output.h"
#include "jobs/session/stores.h"
#include "serve/client/job_client.h"

namespace moetune {

struct RemoteOptions {
  std::string server;      // "http://127.0.0.1:7878"; "" for a local search
  std::string token_file;  // serve/api/token_file.h; "" for none
  std::string ca_file;
};

// If there is a token, and the way to the server is neither this machine nor TLS.
void warn_of_token(const std::string& server, const std::string& token_file, const Output& output);

void declare_remote(OptionTable& table, RemoteOptions& options);

// Runs a job of the service, with its events. A stop request withdraws it; the result is null if it had none then.
// `cache` and `threads` are the service's to choose: throws BadInput if the command names them. Other errors are those
// of the local job, and BrokenEnvironment for a service that cannot be reached.
FinishedJob remote_job(const RemoteOptions& options, const std::string& kind, const nlohmann::json& fields,
                       const CacheChoice& cache, std::uint64_t threads, const JobContext& context);

}  // namespace moetune
