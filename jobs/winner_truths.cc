#include "jobs/winner_truths.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/version.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"
#include "launch/bound_plan.h"
#include "tuner/plausibility.h"

namespace moetune {
namespace {

constexpr std::uint64_t kMostGridX = 0x7fffffff, kMostGridYZ = 65535, kMostThreads = 1024, kMostBlockZ = 64,
                        kMostCluster = 16;

std::uint64_t volume(const Dim3& dim) { return std::uint64_t{dim[0]} * dim[1] * dim[2]; }

// nullopt if it cannot be read, which others say.
std::optional<Plan> parse_plan(const std::string& text) {
  try {
    return parse_json(text, "a stored plan").get<Plan>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::optional<DeviceLimits> known_limits(const HardwareKey& hardware) {
  try {
    return stored_limits(hardware);
  } catch (const BadInput&) {
    return std::nullopt;
  }
}

std::string too_large(const LaunchShape& launch, const std::optional<DeviceLimits>& limits) {
  const std::string entry(launch.entry.view());
  const Dim3& grid = launch.grid;
  if (volume(grid) == 0 || grid[0] > kMostGridX || grid[1] > kMostGridYZ || grid[2] > kMostGridYZ)
    return format("the grid of %s is %u × %u × %u", entry.c_str(), grid[0], grid[1], grid[2]);
  const Dim3& block = launch.block;
  const bool fits = block[0] <= kMostThreads && block[1] <= kMostThreads && block[2] <= kMostBlockZ;
  if (!fits || volume(block) == 0 || volume(block) > kMostThreads)
    return format("the block of %s is %u × %u × %u", entry.c_str(), block[0], block[1], block[2]);
  const Dim3& cluster = launch.cluster;
  const bool small = cluster[0] <= kMostCluster && cluster[1] <= kMostCluster && cluster[2] <= kMostCluster;
  if (!small || volume(cluster) == 0 || volume(cluster) > kMostCluster)
    return format("the cluster of %s is %u × %u × %u", entry.c_str(), cluster[0], cluster[1], cluster[2]);
  if (limits && launch.dynamic_shared > limits->shared_per_block)
    return format("%s takes %u bytes of shared memory", entry.c_str(), launch.dynamic_shared);
  return "";
}

// What no launcher binds (launch/bound_plan.h): nothing to launch, or more arguments than there is room for.
std::string unbindable(const Plan& plan) {
  if (plan.launches.empty()) return "its launch plan launches nothing";
  std::size_t maps = 0, scalars = 0;
  for (const Launch& launch : plan.launches) {
    for (const Argument& argument : launch.arguments)
      ++(std::holds_alternative<TensorMap>(argument.value) ? maps : scalars);
  }
  if (maps <= BoundPlan::kMaxMaps && scalars <= BoundPlan::kMaxScalars) return "";
  return format(
      "its launch plan has %zu tensor maps and %zu other arguments; at most %zu and %zu are possible", maps,
      scalars, BoundPlan::kMaxMaps, BoundPlan::kMaxScalars);
}

std::string too_large(const Plan& plan, const HardwareKey& hardware) {
  const std::optional<DeviceLimits> limits = known_limits(hardware);
  for (const Launch& launch : plan.launches) {
    const std::string wrong = too_large(launch, limits);
    if (!wrong.empty()) return "no GPU of its hardware runs its plan: " + wrong;
  }
  const std::int64_t memory = hardware.memory_bytes > 0 ? hardware.memory_bytes : INT64_MAX;
  std::int64_t left = memory;
  for (const Scratch& scratch : plan.scratch) {
    if (scratch.bytes < 0 || scratch.bytes > left)
      return format("its plan takes more scratch memory than the GPU has (%lld bytes)",
                    static_cast<long long>(memory));
    left -= scratch.bytes;
  }
  return "";
}

// Whatever the record says of the roofline.
std::string too_fast(const WorkloadKey& key, const WinnerRecord& winner, const Ceilings& ceilings) {
  const Kernel* const kernel = known_kernel(key.kernel);
  if (kernel == nullptr) return "";
  try {
    const double least_us =
        least_time_us(*kernel, stored_problem(*kernel, key), key.timing, ceilings, peak_of(key.hardware, 0));
    const std::string wrong = why_implausible(winner.time_us, least_us);
    return wrong.empty() ? "" : "it is " + wrong;
  } catch (const BadInput&) {  // a problem that is none today
    return "";
  }
}

bool is_of_this_version(const WinnerRecord& winner) {
  const nlohmann::json provenance = parse_json_or_discard(winner.provenance);
  return provenance.is_object() && provenance.value("moetune", nlohmann::json()) == version();
}

// Of today's sources and version.
std::string other_plan(const WorkloadKey& key, const StoredLaunch& launch, const Space& space) {
  if (launch.config.empty()) return "";
  try {
    const Kernel& kernel = find_kernel(key.kernel);
    const Plan planned = kernel.plan(space.parse_config(launch.config), stored_problem(kernel, key),
                                     stored_limits(key.hardware));
    if (nlohmann::json(planned).dump() == parse_json(launch.plan, "a stored plan").dump()) return "";
    return "its launch plan is not what " + key.kernel + " plans for " + launch.config;
  } catch (const BadInput&) {  // an architecture, a configuration or a problem that is unknown here
    return "";
  }
}

}  // namespace

std::string untrue_winner(const WorkloadKey& key, const WinnerRecord& winner, StoredSpaces& spaces,
                          const Ceilings& ceilings) {
  const std::optional<Plan> plan = parse_plan(winner.plan);
  // Behind a producer fresh inputs need not come from memory.
  if (key.timing != Timing::chained && winner.roofline * kLeastShare > 1)
    return format("it is faster than its GPU can be: %.1f%% of the roofline", winner.roofline * 100);
  if (std::string wrong = too_fast(key, winner, ceilings); !wrong.empty()) return wrong;
  if (!plan) return "";
  if (std::string wrong = unbindable(*plan); !wrong.empty()) return wrong;
  if (std::string wrong = too_large(*plan, key.hardware); !wrong.empty()) return wrong;
  const Space* const space = spaces.space(key);
  if (space == nullptr || !spaces.is_current(key) || !is_of_this_version(winner)) return "";
  std::string wrong = other_plan(key, winner, *space);
  return wrong.empty() ? other_plan(key, winner.fallback, *space) : wrong;
}

}  // namespace moetune
