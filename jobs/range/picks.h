// Looks up which configuration a range table serves for a problem. Uses a server's dispatch table, so both agree.
//
// Immutable once made. The kernel and the range table must outlive it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dispatch/dispatch_table.h"
#include "kernels/kernel.h"
#include "ranges/range_table.h"
#include "runtime/family_defaults.h"

namespace moetune {

class RangePicks {
 public:
  // Throws BadInput if a cell is at no problem of the kernel.
  RangePicks(const Kernel& kernel, const DeviceLimits& limits, const RangeTable& table);

  struct Pick {
    std::string config;
    const RangeCell* cell = nullptr;  // in which the configuration won; nullptr for the space's default
  };
  // nullopt if nothing serves: the table has no cells, or no default is legal there.
  std::optional<Pick> at(const Problem& problem) const;
  // Whether the problem lies between the cells.
  bool holds(const Problem& problem) const;

  // The space's defaults of the problems between the cells, with a problem each. See defaults_served().
  struct Default {
    std::string config;
    Problem problem;
  };
  const std::vector<Default>& defaults() const { return defaults_; }

 private:
  void find_defaults(const Kernel& kernel, const Assignment& specialization, Extents low, Extents high, bool ragged);

  const Kernel& kernel_;
  const RangeTable& table_;
  std::unique_ptr<const FamilyInterface> interface_;
  PointHull hull_;
  std::vector<Default> defaults_;
  std::unique_ptr<const FamilyDefaults> space_defaults_;
  std::unique_ptr<const DispatchTable> dispatch_;  // entries behind those of the cells are defaults by number
};

// The defaults of all that a table serves: between its cells, and from one end of its ranges to the other. Throws as
// RangePicks does.
std::vector<RangePicks::Default> defaults_served(const Kernel& kernel, const DeviceLimits& limits, RangeTable table);

}  // namespace moetune
