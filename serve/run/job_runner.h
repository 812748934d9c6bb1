// One job of the queue, run by the function that its command calls. Errors become the outcome: nothing is thrown.
#pragma once

#include <cstdint>
#include <string>

#include "serve/queue/job_queue.h"
#include "serve/run/job_request.h"

namespace moetune {

struct RunnerSettings {
  CacheChoice cache;
  std::uint64_t threads = 0;  // of the compiler; 0: all cores
};

// Runs on its caller's thread, on `device`. The outcome's state is done or failed; its exit code is that of the
// command.
JobOutcome run_job(const JobRequest& request, const std::string& device, const RunnerSettings& settings,
                   const JobContext& context);

// {"code": ..., "message": ..., "field": ...}, as JobRecord::error holds it.
std::string job_error(const std::string& code, const std::string& message, const std::string& field = "");

}  // namespace moetune
