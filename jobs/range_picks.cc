#include "jobs/range_picks.h"

namespace moetune {
namespace {

// Within a range the default has no say, so none is given.
DispatchTable table_of(const FamilyInterface& interface, std::span<const TablePoint> cells) {
  std::vector<DispatchTable::Measured> measured;
  for (const TablePoint& cell : cells)
    measured.push_back({cell, static_cast<std::uint32_t>(measured.size()), true});
  const std::size_t axes = cells.empty() ? 0 : cells.front().position.size();
  return DispatchTable::build(measured, {axes, interface.has_uneven()},
                              [](const TablePoint&) { return std::nullopt; });
}

}  // namespace

RangePicks::RangePicks(const FamilyInterface& interface, std::span<const TablePoint> cells)
    : table_(table_of(interface, cells)) {}

std::optional<std::size_t> RangePicks::at(const TablePoint& point) const {
  const Cell& cell = table_.find(point);
  return cell.entry == Cell::kNone ? std::nullopt : std::optional<std::size_t>(cell.entry);
}

}  // namespace moetune
