// A job as clients see it. Pure functions; thread-safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "jobs/session/documents.h"
#include "serve/queue/job_queue.h"

namespace moetune {

// A list's view of a request, as JSON: {"kernel", "problem", "over"}, each only if the request has it.
std::string shown_of_request(const nlohmann::json& request);

// `whole` adds request and result; else it has what a list shows of the request, of job.shown alone. `progress`:
// Scheduler::progress().
Document job_document(const JobRecord& job, const Document& progress, bool whole);

}  // namespace moetune
