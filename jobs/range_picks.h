// What of a range table serves a problem: what a server's dispatch table answers, because it is that table.
//
// Immutable once made; the interface must be of the cells' family, and need not outlive it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kernels/family_interface.h"
#include "ranges/expected_choices.h"
#include "runtime/dispatch_table.h"

namespace moetune {

class RangePicks {
 public:
  RangePicks(const FamilyInterface& interface, std::span<const TablePoint> cells,
             const ExpectedChoices& expected = {});

  // A place among the cells or among the expected configurations.
  struct Place {
    bool is_cell = true;
    std::size_t index = 0;
    bool operator==(const Place&) const = default;
  };
  std::optional<Place> at(const TablePoint& point) const;  // nullopt if there are no cells

 private:
  std::size_t cells_;
  DispatchTable table_;  // expected configurations have the entries behind those of the cells
};

}  // namespace moetune
