// The configurations of a space that a strategy has neither asked nor been told about. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "search/legal_space.h"
#include "search/random.h"

namespace moetune {

// Draws ids uniformly without replacement by a Fisher-Yates shuffle of which only the touched entries exist,
// so that a space of millions costs one bit a configuration. One owner; not thread-safe.
class Untried {
 public:
  explicit Untried(std::size_t size) : taken_(size, false), undrawn_(size), left_(size) {}

  bool empty() const { return left_ == 0; }
  std::size_t size() const { return left_; }
  bool contains(ConfigId id) const { return id < taken_.size() && !taken_[id]; }

  // False where `id` is not there (any more).
  bool take(ConfigId id) {
    if (!contains(id)) return false;
    taken_[id] = true;
    --left_;
    return true;
  }

  // Takes one at random; nullopt where none is left.
  std::optional<ConfigId> draw(Random& random) {
    while (left_ > 0) {
      const ConfigId id = draw_shuffled(random);
      if (take(id)) return id;
    }
    return std::nullopt;
  }

 private:
  ConfigId draw_shuffled(Random& random) {
    const auto pick = static_cast<ConfigId>(random.below(undrawn_--));
    const ConfigId id = entry(pick);
    shuffled_[pick] = entry(static_cast<ConfigId>(undrawn_));
    shuffled_.erase(static_cast<ConfigId>(undrawn_));
    return id;
  }
  ConfigId entry(ConfigId index) const {
    const auto it = shuffled_.find(index);
    return it != shuffled_.end() ? it->second : index;
  }

  std::vector<bool> taken_;
  std::unordered_map<ConfigId, ConfigId> shuffled_;  // entries of the shuffle that are not their own index
  std::size_t undrawn_;
  std::size_t left_;
};

}  // namespace moetune
