// `moetune search KERNEL --over ...`: a range of problems tuned into one table. Its options, and what is printed of it.
#pragma once

#include "cli/option_table.h"
#include "cli/output.h"
#include "cli/remote_search.h"
#include "jobs/search_job.h"

namespace moetune {

struct RangeOptions {
  std::string over;  // "": no range is requested
  double regret_percent = 2;
  std::uint64_t variants = 4, shapes = 12, shape_budget = 30;
};

// The worst cell's regret beside the bound, of range_document(), with as many digits as the bound has. A table of fewer
// cubins than it might have misses its bound for another reason than their number.
std::string worst_regret_text(const Document& found, bool has_all_cubins);

void declare_range(OptionTable& table, RangeOptions& options);

// By a service if `remote` names one. `search` has the target and the settings; its time is that of the whole range.
// Exit codes as of a search: something must have been found.
int search_over(const RangeOptions& options, const SearchRequest& search, const RemoteOptions& remote, Output& output,
                std::stop_token stop);

}  // namespace moetune
