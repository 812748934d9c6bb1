#include "tuner/compile/static_facts.h"

#include <algorithm>

#include "tuner/compile/instruction_mix.h"
#include "tuner/compile/launchable.h"

namespace moetune {
namespace {

constexpr std::int64_t kMostBlocksPerSm = 32;

std::int64_t blocks_of(const Launch& launch) {
  return std::int64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
}

std::int64_t threads_of(const Launch& launch) {
  return std::int64_t{launch.block[0]} * launch.block[1] * launch.block[2];
}

// 1 where the last wave is full.
double wave_share(std::int64_t blocks, std::int64_t slots) {
  if (slots <= 0) return 1;
  const std::int64_t waves = (blocks + slots - 1) / slots;
  return static_cast<double>(blocks) / static_cast<double>(waves * slots);
}

}  // namespace

std::int64_t resident_blocks(const Launch& launch, const EntryFacts& facts, const DeviceLimits& limits) {
  const std::int64_t threads = threads_of(launch);
  if (threads <= 0) return 0;
  const std::int64_t warps = (threads + 31) / 32;
  std::int64_t blocks = std::min(kMostBlocksPerSm, limits.threads_per_sm / (32 * warps));
  const std::int64_t registers = allocated_registers(threads, facts.registers);
  if (registers > 0) blocks = std::min(blocks, limits.registers_per_sm / registers);
  const std::int64_t shared = facts.static_shared + launch.dynamic_shared + kReservedShared;
  return std::min(blocks, limits.shared_per_sm / shared);
}

Facts static_facts(const Plan& plan, const Build& build, const DeviceLimits& limits) {
  if (build.outcome != Outcome::ok) return {};
  const Launch* heaviest = nullptr;
  const EntryFacts* its_facts = nullptr;
  std::int64_t fewest = 0;
  for (const Launch& launch : plan.launches) {
    const auto entry = build.entries.find(launch.entry.text());
    if (entry == build.entries.end()) return {};
    const std::int64_t resident = resident_blocks(launch, entry->second, limits);
    if (resident <= 0) return {};
    if (heaviest != nullptr && resident >= fewest) continue;
    heaviest = &launch;
    its_facts = &entry->second;
    fewest = resident;
  }
  if (heaviest == nullptr) return {};
  const std::int64_t warps = (threads_of(*heaviest) + 31) / 32;
  const std::int64_t blocks = blocks_of(*heaviest);
  const InstructionMix mix = instruction_mix(build.cubin, heaviest->entry.text()).value_or(InstructionMix());
  const auto share = [&](std::int64_t count) {
    return mix.total > 0 ? static_cast<double>(count) / static_cast<double>(mix.total) : 0;
  };
  return {static_cast<double>(its_facts->registers),
          static_cast<double>(its_facts->spill_store_bytes + its_facts->spill_load_bytes),
          static_cast<double>(its_facts->static_shared + heaviest->dynamic_shared),
          static_cast<double>(fewest),
          static_cast<double>(fewest * warps),
          static_cast<double>(blocks),
          wave_share(blocks, fewest * limits.sm_count),
          static_cast<double>(build.cubin.size()),
          static_cast<double>(mix.total),
          share(mix.tensor),
          share(mix.shared),
          share(mix.special)};
}

}  // namespace moetune
