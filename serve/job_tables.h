// The tables of a service's queue (serve/job_queue.h): `jobs`, what is short of each job; `job_texts`, its request and
// result, which lists do not read; `tickets`, the requests that wait for it.
#pragma once

#include "cache/database.h"

namespace moetune {

// Makes the tables in a new file, and brings those of an earlier version to this one, in one transaction. Throws
// BrokenEnvironment for a file that is no queue, or one of a later version.
void prepare_job_tables(const Database& database);

}  // namespace moetune
