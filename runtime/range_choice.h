// One choice for all cells that a growing dimension crosses, for a graph that is captured once.
//
// How much slower a choice is in a cell that another one serves is not stored: a range table keeps for each cell the
// time of the configuration that it serves there, of the default and of the best. So what is minimized is how far the
// choice is used from home: the greatest distance, in cells, of a crossed cell to the nearest one that holds the same
// configuration of the same cubin. A tie goes to the one whose range table measured the least loss in its worst crossed
// cell (a choice without a range table counts as losing nothing), then the first along the range.
//
// Thread-safe; allocates.
#pragma once

#include <span>

#include "dispatch/dispatch_table.h"
#include "runtime/family_entries.h"

namespace moetune {

struct RangeChoice {
  Cell cell;  // none if no crossed cell holds anything; exact only if it is so in every crossed cell
  // A value of the growing dimension in range that nobody measured this choice at: the last one of the last such cell.
  // Only for a cell that is not exact.
  std::int64_t missed = 0;
};

// `crossed` has at least one cell.
RangeChoice choose_for_range(std::span<const CrossedCell> crossed, const FamilyEntries& entries);

}  // namespace moetune
