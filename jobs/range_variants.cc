#include "jobs/range_variants.h"

#include <algorithm>

#include "tuner/trial_record.h"

namespace moetune {

const StoredLaunch& RangeVariants::launch_of(const std::string& text, const Problem& problem) {
  const Config config = session_.space_file()->parse_config(text);
  const std::string cubin = meter_.cubin_of(config);
  if (const auto known = launches_.find(cubin); known != launches_.end()) return known->second;
  const Attempt attempt =
      session_.try_compile(session_.kernel()->plan(config, problem, session_.info().limits), config);
  StoredLaunch launch;
  if (attempt.outcome == Outcome::ok) launch = to_winner(attempt.candidate, {}, {}, nullptr, 0, {});
  return launches_.emplace(cubin, std::move(launch)).first->second;
}

std::vector<StoredLaunch> RangeVariants::of(const RangeTable& table,
                                            const std::vector<RangePicks::Default>& defaults) {
  std::vector<StoredLaunch> all;
  if (session_.compiler() == nullptr || table.cells.empty()) return all;
  const auto add = [&](const std::string& config, const Problem& problem) {
    const StoredLaunch& launch = launch_of(config, problem);
    const bool is_known = std::ranges::find(all, launch.config, &StoredLaunch::config) != all.end();
    if (!launch.config.empty() && !is_known) all.push_back(launch);
  };
  const Kernel& kernel = *session_.kernel();
  for (const RangeCell& cell : table.cells)
    add(cell.config, parse_problem(kernel.name(), kernel.schema(), nullptr, cell.problem));
  for (const RangePicks::Default& one : defaults) add(one.config, one.problem);
  return all;
}

}  // namespace moetune
