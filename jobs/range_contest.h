// A range table that serves today, which a new one must not make slower. For the thread that owns the cache.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "cache/ranges.h"
#include "ranges/range_table.h"

namespace moetune {

// The new table against the one that served until now, at cells of the latter. The new one serves only if it is no
// slower beyond noise: on the whole by the upper end of a 95% interval, and by more than 0.5% at no cell.
struct RangeContest {
  std::size_t shapes = 0;       // compared
  double ratio = 1, worst = 1;  // new over old: geometric mean and most
  double upper = 1;             // end of the mean's interval
  bool contended = false;       // some comparison was disturbed, so that nothing is decided
  bool replaced = false;
};

// A cell's comparison: new time over old in a duel, and in another with the two in the other order. None if they cannot
// be compared.
struct ContestRatio {
  std::vector<double> ratios;
  bool contended = false;
  bool out_of_time = false;  // nothing was compared, nor will be
};

struct StandingTable {
  RangeKey key;
  RangeTable table;
  RangeRecord record;  // with its cubins

  // What is stored under a key while the table stands: the table itself if it is its own, else none.
  RangeRecord kept_under(const RangeKey& other) const;
  // At up to a dozen of its cells, evenly spread. If time ends before half of them, the new table does not serve.
  RangeContest contest(const std::function<ContestRatio(const RangeCell&)>& ratio_at) const;
};

// The latest table of the key's kernel, family, hardware and timing that a server takes: of the key's sources and
// compiler alone, or of whatever ones. nullopt if there is none that is sound.
enum class Sources { same, any };
std::optional<StandingTable> find_standing(const Cache& cache, const RangeKey& key, Sources sources);

}  // namespace moetune
