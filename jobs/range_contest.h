// A range table that serves today, which a new one must not make slower. For the thread that owns the cache.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "cache/ranges.h"
#include "ranges/range_table.h"

namespace moetune {

// The new table against the one that served until now, at cells of the latter. The new one serves only if it is on the
// whole no slower, and nowhere by more than 1%.
struct RangeContest {
  std::size_t shapes = 0;
  double ratio = 1, worst = 1;  // new over old: geometric mean and most
  bool replaced = false;
};

struct StandingTable {
  RangeKey key;
  RangeTable table;
  RangeRecord record;  // with its cubins

  // What is stored under a key while the table stands: the table itself if it is its own, else none.
  RangeRecord kept_under(const RangeKey& other) const;
  // At up to a dozen of its cells, evenly spread: `ratio_at` gives the time of the new table over its own there;
  // nullopt if they cannot be compared.
  RangeContest contest(const std::function<std::optional<double>(const RangeCell&)>& ratio_at) const;
};

// The latest table of the key's kernel, family, hardware and timing that a server takes, of whatever sources and
// compiler; nullopt if there is none that is sound.
std::optional<StandingTable> find_standing(const Cache& cache, const RangeKey& key);

}  // namespace moetune
