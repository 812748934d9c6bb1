// Remembers what was chosen lately, by problem. A problem that is not there any more is chosen for again.
//
// Thread-safe without locks: whoever finds a place being written goes without it. Nothing is allocated after it was
// made; its memory is touched when it is first used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/family_interface.h"

namespace moetune {

enum class ChoiceKind : std::uint8_t { exact, nearest, by_default, pinned };

struct Cell {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  std::uint32_t entry = kNone;  // into the family's entries
  ChoiceKind kind = ChoiceKind::nearest;
  bool operator==(const Cell&) const = default;
};

class ChoiceMemo {
 public:
  ChoiceMemo();

  using Key = std::array<std::uint64_t, 8>;  // all of a family's keys have as many extents and positions
  static Key key_of(const TablePoint& point, const Extents& extents);

  std::optional<Cell> find(const Key& key) const;
  void keep(const Key& key, Cell cell) const;

 private:
  // Zero bytes are an empty one. `version` is odd while it is written.
  struct Entry {
    std::uint64_t version;
    Key key;
    std::uint64_t cell;
  };
  static constexpr std::size_t kSets = 4096, kWays = 4;
  static constexpr std::size_t kBytes = kSets * kWays * sizeof(Entry);
  struct Release {
    void operator()(Entry* entries) const;
  };
  static std::uint64_t hash_of(const Key& key);
  Entry* set_of(std::uint64_t hash) const { return entries_.get() + hash % kSets * kWays; }

  std::unique_ptr<Entry[], Release> entries_;
};

}  // namespace moetune
