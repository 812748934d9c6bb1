#include "runtime/family_entries.h"

#include "runtime/runtime_error.h"

namespace moetune {

std::uint32_t FamilyEntries::add(FamilyEntry entry) {
  std::string name = entry.config + "\n" + entry.source.problem;
  const auto [begin, end] = by_name_.equal_range(name);
  for (auto known = begin; known != end; ++known) {
    const FamilyEntry& other = (*this)[known->second];
    if (other.variant == entry.variant && other.source == entry.source) return known->second;
  }
  const std::uint32_t count = count_.load(std::memory_order_relaxed);
  const Position at = position(count);
  if (at.block == kBlocks)
    throw RuntimeError(MOETUNE_OUT_OF_MEMORY, "a family holds too many choices; open the runtime again");
  if (at.offset == 0) blocks_[at.block] = std::make_unique<FamilyEntry[]>(kFirst << at.block);
  by_name_.emplace(std::move(name), count);
  blocks_[at.block][at.offset] = std::move(entry);
  count_.store(count + 1, std::memory_order_release);
  return count;
}

}  // namespace moetune
