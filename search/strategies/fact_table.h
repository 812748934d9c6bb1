// The facts that a strategy has learnt of configurations, as further axes for its model: a few levels each,
// which the known values decide anew whenever settle() is called. One owner; not thread-safe.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "search/searcher.h"
#include "search/strategies/encoding.h"

namespace moetune {

class FactTable {
 public:
  // False where the facts are empty, of another length than the first ones, not finite, or known already.
  bool add(ConfigId id, const Facts& facts);
  bool knows(ConfigId id) const { return rows_.contains(id); }
  const std::vector<ConfigId>& ids() const { return ids_; }  // in the order they were learnt

  // Chooses the levels; what follows is by these.
  void settle();
  const std::vector<Axis>& axes() const { return axes_; }
  // The levels of `id`, appended to `rows`; the middle of each axis where nothing is known of it.
  void append(std::optional<ConfigId> id, std::vector<Position>& rows) const;

 private:
  struct Scale {
    std::vector<double> levels;  // ascending
    Position nearest(double value) const;
  };

  std::vector<ConfigId> ids_;
  std::unordered_map<ConfigId, Facts> rows_;  // logarithms
  std::vector<Scale> scales_;
  std::vector<Axis> axes_;
  std::vector<Position> middle_;
};

}  // namespace moetune
