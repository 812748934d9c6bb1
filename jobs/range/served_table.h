// The choices of a stored range table, for callers that show or check what a server would launch at a shape.
//
// Immutable once made. The kernel must outlive it; errors as below.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "cache/ranges.h"
#include "jobs/range/picks.h"
#include "kernels/kernel.h"
#include "ranges/range_table.h"

namespace moetune {

class ServedTable {
 public:
  // Throws BadInput if the table cannot be read, or is of problems that the kernel does not take.
  ServedTable(const Kernel& kernel, const FamilyRange& range);
  ServedTable(const ServedTable&) = delete;

  const FamilyRange& range() const { return range_; }
  const RangeTable& table() const { return table_; }
  std::string name() const { return "table:" + std::to_string(range_.id); }

  // Whether a server takes the table at all: it has cells and cubins, and nobody disturbed its measuring.
  bool is_served() const { return !table_.contended && !table_.cells.empty() && !range_.variants.empty(); }
  // Whether the problem is of the family and lies between the measured cells.
  bool holds(const Problem& problem) const;
  // nullopt for a problem that it does not hold.
  std::optional<RangePicks::Pick> at(const Problem& problem) const;

  // Whether a winner of a problem that the table holds stands back: the table is closer to how a server launches, or
  // as close and as young.
  bool supersedes(Timing timing, const std::string& stored_at) const;

 private:
  const Kernel& kernel_;
  const FamilyRange range_;
  const RangeTable table_;
  const RangePicks picks_;
};

// The table of a cache that a server would take for a problem on that very hardware: the closest to how it launches,
// then the latest. nullptr if none holds it. What cannot be read counts as none.
std::unique_ptr<const ServedTable> find_served_table(const Cache& cache, const Kernel& kernel,
                                                     const HardwareKey& hardware, const Problem& problem);

}  // namespace moetune
