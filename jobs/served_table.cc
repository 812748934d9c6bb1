#include "jobs/served_table.h"

#include <algorithm>

#include "base/error.h"

namespace moetune {
namespace {

RangeTable read_table(const Kernel& kernel, const FamilyRange& range) {
  RangeTable table = RangeTable::parse(range.table, "a stored range table");
  for (const RangeCell& cell : table.cells)
    kernel.check(parse_problem(kernel.name(), kernel.schema(), nullptr, cell.problem));
  return table;
}

}  // namespace

ServedTable::ServedTable(const Kernel& kernel, const FamilyRange& range)
    : kernel_(kernel), range_(range), table_(read_table(kernel, range)) {
  std::vector<TablePoint> points;
  for (const RangeCell& cell : table_.cells) {
    const Problem problem = parse_problem(kernel.name(), kernel.schema(), nullptr, cell.problem);
    if (interface_ == nullptr) interface_ = kernel.family_interface(problem);
    points.push_back(interface_->table_point_of(problem));
    add(points.back());
  }
  if (interface_ != nullptr) picks_.emplace(*interface_, points, table_.expected);
}

void ServedTable::add(const TablePoint& point) {
  const auto found =
      std::ranges::find_if(boxes_, [&](const Box& box) { return box.low.uneven == point.uneven; });
  Box& box = found != boxes_.end() ? *found : boxes_.emplace_back(point, point);
  for (std::size_t axis = 0; axis < point.position.size(); ++axis) {
    box.low.position[axis] = std::min(box.low.position[axis], point.position[axis]);
    box.high.position[axis] = std::max(box.high.position[axis], point.position[axis]);
  }
}

bool ServedTable::holds(const Problem& problem) const {
  if (interface_ == nullptr || kernel_.specialization(problem).text() != range_.key.family) return false;
  const TablePoint point = interface_->table_point_of(problem);
  return std::ranges::any_of(boxes_, [&](const Box& box) {
    bool is_within = box.low.uneven == point.uneven;
    for (std::size_t axis = 0; axis < point.position.size(); ++axis)
      is_within = is_within && point.position[axis] >= box.low.position[axis] &&
                  point.position[axis] <= box.high.position[axis];
    return is_within;
  });
}

std::optional<ServedChoice> ServedTable::at(const Problem& problem) const {
  if (!holds(problem)) return std::nullopt;
  const std::optional<RangePicks::Place> place = picks_->at(interface_->table_point_of(problem));
  if (!place) return std::nullopt;
  if (!place->is_cell) return ServedChoice{table_.expected.configs.at(place->index)};
  const RangeCell& cell = table_.cells.at(place->index);
  return ServedChoice{cell.config, &cell};
}

bool ServedTable::supersedes(Timing timing, const std::string& stored_at) const {
  if (timing != range_.key.timing) return timing > range_.key.timing;
  return stored_at <= range_.stored_at;
}

std::unique_ptr<const ServedTable> find_served_table(const Cache& cache, const Kernel& kernel,
                                                     const HardwareKey& hardware, const Problem& problem) {
  std::vector<FamilyRange> ranges = cache.family_ranges(kernel.name(), kernel.specialization(problem).text());
  std::ranges::stable_sort(ranges, {},
                           [](const FamilyRange& one) { return one.key.timing; });  // latest first before
  for (const FamilyRange& range : ranges) {
    if (!range.key.hardware.is_same(hardware)) continue;
    try {
      auto table = std::make_unique<const ServedTable>(kernel, range);
      if (table->is_served()) return table->holds(problem) ? std::move(table) : nullptr;
    } catch (const BadInput&) {  // of another version
    }
  }
  return nullptr;
}

}  // namespace moetune
