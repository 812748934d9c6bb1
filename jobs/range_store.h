// What a range search keeps in the cache: its progress after each step, and the table that serves, with its cubins.
//
// A sound table that is there already serves until the new one is as good a replacement: it takes up the same search,
// or is complete, or has as many cells when the time is up. With a guard it must win a contest as well. For the thread
// that owns the cache, which must outlive it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cache/ranges.h"
#include "jobs/range_contest.h"
#include "jobs/range_solution.h"
#include "ranges/grid.h"

namespace moetune {

class RangeStore {
 public:
  struct Choice {
    bool fresh = false, guard = false;
  };
  // `base` has the dimensions that are no ranges. Throws BadField (over) if the stored table serves what these do not,
  // and nobody asked to replace it.
  RangeStore(Cache& cache, RangeKey key, const std::vector<DimensionRange>& ranges, const Problem& base,
             const Choice& choice);

  // What an earlier search left; nullopt if there is nothing, or it is not asked for. Throws BadInput if it is damaged,
  // or is of a moetune that wrote it otherwise.
  std::optional<RangeState> progress() const;

  enum class Stage { under_way, time_is_up, complete };
  struct Made {
    std::vector<StoredLaunch> variants;  // the cubins of the solution's table
    std::string provenance;              // where and how it was measured
  };
  void put(const RangeState& state, const RangeSolution& solution, Made made, Stage stage);
  bool is_stored() const { return stored_; }  // the table with its cubins
  // An older table must be beaten first, so that nothing else of the search may serve either.
  bool is_guarded() const { return choice_.guard && standing_.has_value(); }

  // With a guard and an older table: whether the new one may serve. See StandingTable::contest.
  std::optional<RangeContest> meet(const RangeSolution& solution,
                                   const std::function<ContestRatio(const RangeCell&)>& ratio_at);

 private:
  bool may_replace(const RangeSolution& solution, Stage stage) const;

  Cache& cache_;
  const RangeKey key_;
  const std::string ranges_;
  const Choice choice_;
  std::optional<StandingTable> standing_;
  bool goes_on_ = false;  // the standing table is of the same search
  bool stored_ = false;
};

}  // namespace moetune
