// A job as clients see it. A pure function; thread-safe.
#pragma once

#include "jobs/documents.h"
#include "serve/job_queue.h"

namespace moetune {

// `whole` adds request and result; else it has what a list shows of the request. `progress`: Scheduler::progress().
Document job_document(const JobRecord& job, const Document& progress, bool whole);

}  // namespace moetune
