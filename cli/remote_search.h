// Searches that a service runs (docs/service.md), with the events and results of local ones.
#pragma once

#include <string>

#include "cli/option_table.h"
#include "jobs/range_job.h"
#include "jobs/search_job.h"
#include "serve/job_client.h"

namespace moetune {

struct RemoteOptions {
  std::string server;      // "http://127.0.0.1:7878"; "" for a local search
  std::string token_file;  // serve/token_file.h; "" for none
  std::string ca_file;
};

void declare_remote(OptionTable& table, RemoteOptions& options);

// Throws BadInput for what is the service's to choose.
void check_remote(const CacheChoice& cache, std::uint64_t threads);

// Any job, with its events.
FinishedJob remote_job(const RemoteOptions& options, const std::string& kind, const nlohmann::json& fields,
                       const JobContext& context);

// A stop request withdraws the job. Errors as those of the local job, and BrokenEnvironment for a service that cannot
// be reached. `document` becomes the service's, as programs read it; null if the job was stopped before it had a
// result.
SearchResult remote_search(const RemoteOptions& options, const SearchRequest& request,
                           const JobContext& context, Document& document);
RangeResult remote_range(const RemoteOptions& options, const RangeRequest& request, const JobContext& context,
                         Document& document);

}  // namespace moetune
