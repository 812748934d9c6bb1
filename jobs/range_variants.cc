#include "jobs/range_variants.h"

#include <algorithm>

#include "tuner/trial_record.h"

namespace moetune {

const StoredLaunch& RangeVariants::launch_of(const RangeCell& cell) {
  const Config config = session_.space_file()->parse_config(cell.config);
  const std::string cubin = meter_.cubin_of(config);
  if (const auto known = launches_.find(cubin); known != launches_.end()) return known->second;
  const auto planned = std::ranges::find(plan_.cells(), cell.problem,
                                         [](const PlannedCell& one) { return one.problem.text(); });
  const Kernel& kernel = *session_.kernel();
  const Attempt attempt =
      session_.try_compile(kernel.plan(config, planned->problem, session_.info().limits), config);
  StoredLaunch launch;
  if (attempt.outcome == Outcome::ok) launch = to_winner(attempt.candidate, {}, {}, nullptr, 0, {});
  return launches_.emplace(cubin, std::move(launch)).first->second;
}

std::vector<StoredLaunch> RangeVariants::of(const RangeTable& table) {
  std::vector<StoredLaunch> all;
  if (session_.compiler() == nullptr) return all;
  for (const RangeCell& cell : table.cells) {
    const StoredLaunch& launch = launch_of(cell);
    const bool is_known = std::ranges::find(all, launch.config, &StoredLaunch::config) != all.end();
    if (!launch.config.empty() && !is_known) all.push_back(launch);
  }
  return all;
}

}  // namespace moetune
