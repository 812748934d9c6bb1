// The choices of a family, numbered in the order in which they were added. They are never moved nor removed, so that
// readers need no lock.
//
// One thread adds at a time, while any number read what is below size(). Throws RuntimeError (out_of_memory) for more
// than kMost choices.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "runtime/variant.h"

namespace moetune {

class FamilyEntries {
 public:
  static constexpr std::uint32_t kMost = (std::uint32_t{1} << 24) - 64;

  std::uint32_t size() const { return count_.load(std::memory_order_acquire); }

  // `index` is below a size() that this thread has seen, or is of a table that was handed to it.
  const FamilyEntry& operator[](std::uint32_t index) const {
    const Position at = position(index);
    return blocks_[at.block][at.offset];
  }

  // The number of an equal entry if there is one.
  std::uint32_t add(FamilyEntry entry);

 private:
  // Block b holds kFirst * 2^b entries.
  static constexpr std::uint64_t kFirst = 64;
  static constexpr std::size_t kBlocks = 18;
  static_assert(kMost == kFirst * ((std::uint64_t{1} << kBlocks) - 1));
  struct Position {
    std::size_t block, offset;
  };
  static Position position(std::uint64_t index) {
    const std::uint64_t from_first = index + kFirst;
    const auto block = static_cast<std::size_t>(std::bit_width(from_first) - std::bit_width(kFirst));
    return {block, from_first - (kFirst << block)};
  }

  std::array<std::unique_ptr<FamilyEntry[]>, kBlocks> blocks_;
  std::atomic<std::uint32_t> count_{0};                          // those below it are there
  std::unordered_multimap<std::string, std::uint32_t> by_name_;  // configuration and problem
};

}  // namespace moetune
