// The range tables of a report as its page holds them. Pure functions.
#pragma once

#include "report/page.h"

namespace moetune {

// At most PageBudget::ranges tables with PageBudget::cells cells together. Cells point to the first `workloads` of the
// report alone.
Document page_ranges(const Report& report, const PageBudget& budget, std::size_t workloads);

}  // namespace moetune
