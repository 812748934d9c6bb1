#include "soundness/sound_plan.h"

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "kernels/plan_interface.h"
#include "launch/bound_plan.h"
#include "soundness/sound_parts.h"

namespace moetune {
namespace {

constexpr std::uint64_t kMostGridX = 0x7fffffff, kMostGridYZ = 65535, kMostThreads = 1024, kMostBlockZ = 64,
                        kMostCluster = 16;

std::uint64_t volume(const Dim3& dim) { return std::uint64_t{dim[0]} * dim[1] * dim[2]; }

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

// Names what no launcher can bind (launch/bound_plan.h): nothing to launch, or more arguments than there is room for.
std::string unbindable(const Plan& plan) {
  if (plan.launches.empty()) return "its launch plan launches nothing";
  std::size_t large = 0, scalars = 0;
  for (const Launch& launch : plan.launches) {
    for (const Argument& argument : launch.arguments) ++(is_large(argument) ? large : scalars);
  }
  if (large <= LaunchPlan::kMaxLarge && scalars <= LaunchPlan::kMaxScalars) return "";
  return format(
      "its launch plan has %zu tensor maps and structs and %zu other arguments; at most %zu and %zu are possible",
      large, scalars, LaunchPlan::kMaxLarge, LaunchPlan::kMaxScalars);
}

// The names of a 64-bit ELF file's sections, each with a 0 behind it; the whole file if its headers do not lead to
// them.
std::string_view section_names(std::string_view elf) {
  const auto number = [&](std::size_t at, std::size_t bytes) {
    std::uint64_t value = 0;
    if (at <= elf.size() && bytes <= elf.size() - at) std::memcpy(&value, elf.data() + at, bytes);
    return value;
  };
  const std::uint64_t headers = number(0x28, 8), size = number(0x3a, 2), place = number(0x3e, 2);
  if (headers >= elf.size()) return elf;
  const std::uint64_t header = headers + size * place;
  const std::uint64_t begin = number(header + 0x18, 8), length = number(header + 0x20, 8);
  return begin > 0 && begin < elf.size() && length <= elf.size() - begin ? elf.substr(begin, length) : elf;
}

// Looks for a section named by each kernel in an ELF file. Skips anything else, which no driver loads.
std::string lacks_kernel(const Plan& plan, const Blob& cubin) {
  const std::string_view file(reinterpret_cast<const char*>(cubin.data()), cubin.size());
  if (!file.starts_with("\x7f"
                        "ELF"))
    return "";
  const std::string_view bytes = section_names(file);
  for (const Launch& launch : plan.launches) {
    const std::string section = ".text." + std::string(launch.entry.view()) + '\0';
    if (bytes.find(section) == std::string_view::npos)
      return "its cubin has no kernel " + std::string(launch.entry.view());
  }
  return "";
}

std::string too_large(const Plan& plan, const HardwareKey& hardware, const std::optional<DeviceLimits>& limits) {
  for (const Launch& launch : plan.launches) {
    const std::string wrong = too_large(launch, limits);
    if (!wrong.empty()) return "no GPU of its hardware runs its plan: " + wrong;
  }
  const std::int64_t memory = hardware.memory_bytes > 0 ? hardware.memory_bytes : INT64_MAX;
  std::int64_t left = memory;
  for (const Scratch& scratch : plan.scratch) {
    if (scratch.bytes < 0 || scratch.bytes > left)
      return format("its plan takes more scratch memory than the GPU has (%lld bytes)", static_cast<long long>(memory));
    left -= scratch.bytes;
  }
  return "";
}

// The kernel's plan for the configuration; nullopt for one that is unknown here, as its problem or architecture may be.
std::optional<Plan> planned(const KnownWorkload& known, const Config* config) {
  if (config == nullptr || !known.problem || !known.limits) return std::nullopt;
  try {
    return known.kernel->plan(*config, *known.problem, *known.limits);
  } catch (const BadInput&) {
    return std::nullopt;
  }
}

}  // namespace

std::string wrong_plan(const StoredLaunch& launch, const HardwareKey& hardware, const KnownWorkload& known,
                       const Config* config) {
  const std::optional<Plan> todays = planned(known, config);
  const bool is_todays = todays && plan_text(*todays) == launch.plan;  // spares reading it
  Plan read;
  try {
    if (!is_todays) read = parse_json(launch.plan, "a stored plan").get<Plan>();
  } catch (const OtherPlanVersion&) {
    return "";  // sound, but this version cannot use it
  } catch (const std::exception& error) {
    return std::string("its launch plan cannot be read: ") + error.what();
  }
  const Plan& plan = is_todays ? *todays : read;
  return first_wrong(
      [&] { return unbindable(plan); }, [&] { return too_large(plan, hardware, known.limits); },
      [&] { return lacks_kernel(plan, launch.cubin); },
      [&] {
        return todays && !is_todays && plan != *todays
                   ? "its launch plan is not what " + known.kernel->name() + " plans for " + launch.config
                   : "";
      },
      [&] {
        const bool is_interface =
            launch.interface.empty() || !todays || launch.interface == interface_digest(todays->unit, *todays);
        return is_interface
                   ? ""
                   : "its cubin takes other parameters than " + known.kernel->name() + " passes for " + launch.config;
      });
}

}  // namespace moetune
