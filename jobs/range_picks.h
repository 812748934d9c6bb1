// Which cell of a range serves a problem: what a server's dispatch table answers, because it is that table.
//
// Immutable once made; the interface must be of the cells' family, and need not outlive it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kernels/family_interface.h"
#include "runtime/dispatch_table.h"

namespace moetune {

class RangePicks {
 public:
  RangePicks(const FamilyInterface& interface, std::span<const TablePoint> cells);

  // A position among the cells; nullopt if there are none.
  std::optional<std::size_t> at(const TablePoint& point) const;

 private:
  DispatchTable table_;
};

}  // namespace moetune
