// Why a stored winner may no longer be the right one. Pure functions over what was read.
#pragma once

#include <string>
#include <vector>

#include "report/workload_report.h"
#include "staleness/ledger.h"

namespace moetune {

// Fills in `stale` of every workload: templates, space or compiler changed, driver changed, or another workload of the
// same kernel, problem and hardware has a winner of today's templates. A winner that a night has examined since and
// kept (`nights`) is of that night, as it is for the next night's plan (retune/plan.h). Fills in `kept` too.
// `most_judged` bounds the look at inputs, checks and references, the dearest: of so many winners of a kernel, spread
// evenly, and of all only if those of one have changed; 0: of all.
void find_stale(std::vector<WorkloadReport>& workloads, StoredSpaces& spaces, const Ledger& nights,
                std::size_t most_judged = 0);

// Fills in `before` where the workload's own history has none.
void find_earlier_winners(std::vector<WorkloadReport>& workloads);

}  // namespace moetune
