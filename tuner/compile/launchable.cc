#include "tuner/compile/launchable.h"

#include "base/lists.h"
#include "kernels/entry_name.h"
#include "tuner/compile/cubin_state.h"

namespace moetune {
namespace {

// The same on every architecture since sm_80.
constexpr std::int64_t kMaxBlockThreads = 1024;
constexpr std::int64_t kMaxBlockZ = 64;
constexpr std::int64_t kMaxGridX = 2147483647;
constexpr std::int64_t kMaxGridYZ = 65535;
constexpr std::int64_t kPortableCluster = 8;
constexpr std::int64_t kDatacenterCluster = 16;  // with an attribute (cuda::permit): Hopper and sm_100, not sm_120

std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

std::int64_t volume(const Dim3& dims) { return std::int64_t{dims[0]} * dims[1] * dims[2]; }

std::string count_text(std::int64_t count, const std::string& unit) { return std::to_string(count) + " " + unit; }

std::string why_shape(const Launch& launch, const DeviceLimits& limits) {
  const std::int64_t threads = volume(launch.block), cluster = volume(launch.cluster);
  if (threads == 0 || volume(launch.grid) == 0 || cluster == 0) {
    return "an empty grid, block or cluster: what it is computed by is 0, too large, or has no value";
  }
  if (threads > kMaxBlockThreads || launch.block[2] > kMaxBlockZ) {
    return count_text(threads, "threads a block; at most 1024, and 64 in z");
  }
  if (launch.grid[0] > kMaxGridX || launch.grid[1] > kMaxGridYZ || launch.grid[2] > kMaxGridYZ) {
    return "a grid past 2^31-1 in x or 65535 in y or z";
  }
  if (cluster == 1) return "";
  if (limits.compute_capability < 90) return "a cluster, which needs sm_90";
  const std::int64_t most = limits.compute_capability < 120 ? kDatacenterCluster : kPortableCluster;
  if (cluster > most) return count_text(cluster, "blocks a cluster; at most " + std::to_string(most));
  for (int i = 0; i < 3; ++i) {
    if (launch.grid[i] % launch.cluster[i] != 0) return "a grid that is no multiple of its cluster";
  }
  return "";
}

std::string why_missing(const Launch& launch, const Build& build) {
  const std::string names = joined(build.entries, ", ", [](const auto& entry) { return entry.first; });
  return launch.entry.text() + ": no such entry in the build, which has " + (names.empty() ? "none" : names);
}

std::string why_resources(const Launch& launch, const EntryFacts& facts, const DeviceLimits& limits) {
  const std::int64_t shared = facts.static_shared + launch.dynamic_shared;
  if (shared > limits.shared_per_block) {
    return count_text(shared, "bytes of shared memory a block; the device has ") +
           std::to_string(limits.shared_per_block);
  }
  const std::int64_t threads = volume(launch.block);
  if (allocated_registers(threads, facts.registers) > limits.registers_per_sm) {
    return count_text(threads, "threads of ") + count_text(facts.registers, "registers; the device has ") +
           count_text(limits.registers_per_sm, "a block");
  }
  return "";
}

std::size_t bytes_of(const Argument& argument) {
  if (std::holds_alternative<TensorMap>(argument.value)) return 128;
  if (const auto* fields = std::get_if<StructValue>(&argument.value)) return 8 * fields->words.size();
  const bool is_narrow =
      std::holds_alternative<std::int32_t>(argument.value) || std::holds_alternative<float>(argument.value);
  return is_narrow ? 4 : 8;
}

// The driver reads as many arguments, and as many bytes of each, as the cubin says.
std::string why_arguments(const Launch& launch, const std::vector<std::size_t>& parameters) {
  if (parameters.empty()) return "";
  const auto& arguments = launch.arguments;
  if (arguments.size() != parameters.size()) {
    return "the function has " + count_text(static_cast<std::int64_t>(parameters.size()), "parameters, and ") +
           count_text(static_cast<std::int64_t>(arguments.size()), "arguments are given");
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (bytes_of(arguments[i]) < parameters[i]) {
      return "the function's parameter " + std::to_string(i) + " has " + std::to_string(parameters[i]) +
             " bytes, and its argument " + std::to_string(bytes_of(arguments[i]));
    }
  }
  return "";
}

}  // namespace

std::int64_t allocated_registers(std::int64_t threads, int registers) {
  const std::int64_t warps = round_up((threads + 31) / 32, 4);
  return warps * round_up(32 * std::int64_t{registers}, 256);
}

std::string why_unlaunchable(const Plan& plan, const Build& build, const DeviceLimits& limits) {
  for (const Launch& launch : plan.launches) {
    const auto facts = find_entry(build.entries, launch.entry.view());
    if (facts == build.entries.end()) return why_missing(launch, build);
    std::string reason = why_shape(launch, limits);
    if (reason.empty()) reason = why_resources(launch, facts->second, limits);
    if (reason.empty()) reason = why_arguments(launch, parameter_bytes(build.cubin, facts->first));
    if (!reason.empty()) return launch.entry.text() + ": " + reason;
  }
  return "";
}

std::string why_spilling(const Plan& plan, const Build& build) {
  constexpr std::int64_t kMostSpills = 512;
  for (const Launch& launch : plan.launches) {
    const auto facts = find_entry(build.entries, launch.entry.view());
    if (facts == build.entries.end()) continue;
    const std::int64_t spills = std::int64_t{facts->second.spill_store_bytes} + facts->second.spill_load_bytes;
    if (spills <= kMostSpills) continue;
    return launch.entry.text() + ": " + count_text(spills, "bytes of register spills a thread; the limit is ") +
           std::to_string(kMostSpills);
  }
  return "";
}

std::string why_serialized(const Plan& plan, const Build& build) {
  for (const Launch& launch : plan.launches) {
    const auto facts = find_entry(build.entries, launch.entry.view());
    if (facts == build.entries.end() || facts->second.serialized.empty()) continue;
    return launch.entry.text() + ": ptxas serialized wgmma due to " + facts->second.serialized;
  }
  return "";
}

}  // namespace moetune
