// Finds the winners that serve other GPUs of the cache, as the runtime would choose them. A pure function.
#pragma once

#include <vector>

#include "cache/cache.h"
#include "report/range_report.h"
#include "report/workload_report.h"

namespace moetune {

// Fills in `inherited_by` of the winners: a GPU of the cache that has no winner and no table of a family takes those of
// the same architecture and the nearest number of SMs (docs/runtime.md).
void find_inherited(std::vector<WorkloadReport>& workloads, const std::vector<RangeReport>& ranges,
                    const std::vector<Workload>& all);

}  // namespace moetune
