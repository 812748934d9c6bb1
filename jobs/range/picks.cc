#include "jobs/range/picks.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/family_defaults.h"

namespace moetune {

RangePicks::RangePicks(const Kernel& kernel, const DeviceLimits& limits, const RangeTable& table)
    : table_(table) {
  if (table.cells.empty()) return;
  std::vector<Problem> problems;
  for (const RangeCell& cell : table.cells) {
    problems.push_back(parse_problem(kernel.name(), kernel.schema(), nullptr, cell.problem));
    kernel.check(problems.back());
  }
  interface_ = kernel.family_interface(problems.front());
  // As runtime/family_builder.cc takes in a table, which says for which extents a position stands.
  const Extents like = kernel.extents_of(problems.back());
  FamilyDefaults defaults(kernel, *interface_, kernel.specialization(problems.front()), limits, like);
  std::vector<DispatchTable::Measured> measured;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const RangeCell& cell = table.cells[i];
    DispatchTable::Measured one{.point = interface_->table_point_of(problems[i]),
                                .entry = static_cast<std::uint32_t>(i)};
    if (DispatchTable::is_clear_win(cell.time_us, cell.default_us))
      one.beat = defaults.number_met(cell.default_config, problems[i]);
    hull_.add(one.point);
    measured.push_back(std::move(one));
  }
  std::vector<bool> is_known;
  const auto default_at = [&](const TablePoint& point) -> std::optional<DispatchTable::Default> {
    try {
      const Config* const config = defaults.at(point);
      if (config == nullptr) return std::nullopt;
      const std::uint32_t number = defaults.number_of(*config);
      is_known.resize(defaults.configs().size());
      if (!is_known[number] && hull_.holds(point)) {
        is_known[number] = true;
        defaults_.push_back({defaults.configs()[number], defaults.problem()});
      }
      return DispatchTable::Default{number, static_cast<std::uint32_t>(table.cells.size() + number)};
    } catch (const BadInput&) {  // no problem has such extents
      return std::nullopt;
    }
  };
  dispatch_ = DispatchTable::build(
      measured, {measured.front().point.position.size(), interface_->has_ragged()}, default_at);
  configs_ = defaults.configs();
}

std::optional<RangePicks::Pick> RangePicks::at(const Problem& problem) const {
  if (!dispatch_) return std::nullopt;
  const std::uint32_t entry = dispatch_->find(interface_->table_point_of(problem)).entry;
  if (entry == Cell::kNone) return std::nullopt;
  if (entry >= table_.cells.size()) return Pick{configs_[entry - table_.cells.size()]};
  return Pick{table_.cells[entry].config, &table_.cells[entry]};
}

bool RangePicks::holds(const Problem& problem) const {
  return interface_ != nullptr && hull_.holds(interface_->table_point_of(problem));
}

}  // namespace moetune
