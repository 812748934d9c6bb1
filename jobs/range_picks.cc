#include "jobs/range_picks.h"

namespace moetune {
namespace {

// Within a range the default has no say, so none is given.
DispatchTable table_of(const FamilyInterface& interface, std::span<const TablePoint> cells,
                       const ExpectedChoices& expected) {
  std::vector<DispatchTable::Measured> measured;
  for (const TablePoint& cell : cells)
    measured.push_back({cell, static_cast<std::uint32_t>(measured.size()), true});
  std::vector<ExpectedGrid> grids = expected.grids;
  for (ExpectedGrid& grid : grids) {
    for (std::uint32_t& choice : grid.choices)
      choice = choice == ExpectedGrid::kNone ? choice : static_cast<std::uint32_t>(cells.size() + choice);
  }
  const std::size_t axes = cells.empty() ? 0 : cells.front().position.size();
  return DispatchTable::build(
      measured, {axes, interface.has_uneven()}, [](const TablePoint&) { return std::nullopt; }, grids);
}

}  // namespace

RangePicks::RangePicks(const FamilyInterface& interface, std::span<const TablePoint> cells,
                       const ExpectedChoices& expected)
    : cells_(cells.size()), table_(table_of(interface, cells, expected)) {}

std::optional<RangePicks::Place> RangePicks::at(const TablePoint& point) const {
  const std::uint32_t entry = table_.find(point).entry;
  if (entry == Cell::kNone) return std::nullopt;
  return entry < cells_ ? Place{true, entry} : Place{false, entry - cells_};
}

}  // namespace moetune
