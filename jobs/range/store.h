// Keeps a range search in the cache: its progress after each step, and the table that serves, with its cubins.
//
// A sound table that is there already serves until the new one is as good a replacement: it takes up the same search,
// or is complete, or has as many cells when the time is up. With a guard it must also be no slower. For the thread that
// owns the cache, which must outlive it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "jobs/range/state.h"
#include "kernels/problem.h"
#include "ranges/grid.h"
#include "ranges/range_table.h"

namespace moetune {

// A new table beside the one that served until now, in the cells that both have and in which both met the same default:
// times over that default's, new over old.
struct RangeComparison {
  // The largest overall ratio between tables of equal quality: anything up to it is noise.
  static constexpr double kNoise = 1.005;

  std::size_t cells = 0;
  double ratio = 1;  // geometric mean
  bool replaced = false;

  static RangeComparison of(const RangeTable& fresh, const RangeTable& standing);
};

class RangeStore {
 public:
  struct Choice {
    bool fresh = false, guard = false;
  };
  // `base` has the dimensions that are no ranges. Throws BadField (over) if the stored table serves what these do not,
  // and nobody asked to replace it.
  RangeStore(Cache& cache, RangeKey key, const std::vector<DimensionRange>& ranges, const Problem& base,
             const Choice& choice);

  // An earlier search's progress; nullopt if there is none or a fresh start was requested. Throws BadInput if it is
  // damaged or in another version's format.
  std::optional<RangeState> progress() const;

  enum class Stage { under_way, time_is_up, complete };
  struct Made {
    std::vector<StoredLaunch> variants;  // the table's cubins
    std::string provenance;              // where and how it was measured
  };
  void put(const RangeState& state, const RangeTable& table, Made made, Stage stage);
  bool is_stored() const { return stored_; }  // the table with its cubins
  // With a guard and an older table, once the new one was complete enough to replace it.
  const std::optional<RangeComparison>& comparison() const { return comparison_; }
  // An older table must be beaten first, so that nothing else of the search may serve either.
  bool is_guarded() const { return choice_.guard && standing_.has_value(); }

 private:
  // The latest table of the key's kernel, family, hardware and timing that a server takes.
  struct Standing {
    RangeKey key;
    RangeTable table;
    RangeRecord record;  // with its cubins
  };
  // The first sound table of this hardware and timing, or nullopt; of other sources or compilers only if `any_sources`.
  std::optional<Standing> find_standing(bool any_sources) const;
  bool may_replace(const RangeTable& table, Stage stage);

  Cache& cache_;
  const RangeKey key_;
  const std::string ranges_;
  const Choice choice_;
  std::optional<Standing> standing_;
  std::optional<RangeComparison> comparison_;
  bool goes_on_ = false;  // the standing table is of the same search
  bool stored_ = false;
};

}  // namespace moetune
