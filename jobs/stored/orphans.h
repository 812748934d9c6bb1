// Finds the workloads of a cache whose trials no search needs.
#pragma once

#include <functional>

#include "cache/cache.h"

namespace moetune {

// True of a workload that was measured on a GPU with other templates than today's, if one of these holds: the same
// problem has a winner on the same hardware with today's templates, today's kernel does not take the problem, or
// the workload is an unfinished recording, which cannot be continued. Trials of other templates are experience for
// new searches otherwise, and stay.
//
// Reads `cache` now, and space files when it is called. For one thread.
std::function<bool(const Workload&)> orphan_rule(const Cache& cache);

}  // namespace moetune
