#include "jobs/range/picks.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "jobs/range/served_ranges.h"

namespace moetune {

namespace {

// The problems at both ends of a table's ranges: all dimensions at the lower end or all at the upper one, even and
// ragged if its cells are. Those that the kernel does not take are left out.
std::vector<Problem> ends_of(const Kernel& kernel, const RangeTable& table) {
  const std::vector<DimensionRange> served = served_ranges(kernel, table);
  std::vector<Problem> ends;
  for (const RangeCell& cell : table.cells) {
    for (const bool upper : {false, true}) {
      Problem end = kernel.parse(cell.problem);
      for (const DimensionRange& range : served)
        end.dims.set(range.name, Value::integer(upper ? range.last : range.first));
      if (std::ranges::find(ends, end) != ends.end()) continue;
      try {
        kernel.check(end);
        ends.push_back(std::move(end));
      } catch (const BadInput&) {
      }
    }
  }
  return ends;
}

}  // namespace

RangePicks::RangePicks(const Kernel& kernel, const DeviceLimits& limits, const RangeTable& table)
    : kernel_(kernel), table_(table) {
  if (table.cells.empty()) return;
  std::vector<Problem> problems;
  for (const RangeCell& cell : table.cells) {
    problems.push_back(kernel.parse(cell.problem));
    kernel.check(problems.back());
  }
  interface_ = kernel.family_interface(problems.front());
  const Assignment specialization = kernel.specialization(problems.front());
  space_defaults_ = std::make_unique<const FamilyDefaults>(kernel, *interface_, specialization, limits,
                                                           kernel.extents_of(problems.front()));
  std::vector<DispatchTable::Measured> measured;
  std::array<std::optional<std::pair<Extents, Extents>>, 2> corners;  // of even and of ragged problems
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const RangeCell& cell = table.cells[i];
    DispatchTable::Measured one{.point = interface_->table_point_of(problems[i]),
                                .entry = static_cast<std::uint32_t>(i),
                                .is_clear = DispatchTable::is_clear_win(cell.time_us, cell.default_us),
                                .extents = kernel.extents_of(problems[i])};
    if (cell.default_us > 0) one.met = space_defaults_->number_met(cell.default_config);
    hull_.add(one.point);
    auto& [low, high] = corners[one.point.ragged] ? *corners[one.point.ragged]
                                                  : corners[one.point.ragged].emplace(one.extents, one.extents);
    for (std::size_t axis = 0; axis < low.size(); ++axis) {
      low[axis] = std::min(low[axis], one.extents[axis]);
      high[axis] = std::max(high[axis], one.extents[axis]);
    }
    measured.push_back(std::move(one));
  }
  std::vector<std::uint32_t> entries;
  for (std::size_t number = 0; number < space_defaults_->configs().size(); ++number)
    entries.push_back(static_cast<std::uint32_t>(table.cells.size() + number));
  dispatch_ = std::make_unique<const DispatchTable>(std::move(measured), std::move(entries), *space_defaults_);
  for (const bool ragged : {false, true}) {
    if (corners[ragged]) find_defaults(kernel, specialization, corners[ragged]->first, corners[ragged]->second, ragged);
  }
}

// Looks closer wherever there may be a default that is not known yet.
void RangePicks::find_defaults(const Kernel& kernel, const Assignment& specialization, Extents low, Extents high,
                               bool ragged) {
  constexpr int kMostBoxes = 4096;
  const auto is_known = [&](std::uint32_t number) {
    return std::ranges::find(defaults_, space_defaults_->texts()[number], &Default::config) != defaults_.end();
  };
  const auto ask_at = [&](const Extents& extents) {
    const std::optional<std::uint32_t> number = space_defaults_->at(extents, ragged);
    if (!number || is_known(*number)) return;
    try {
      Problem problem = kernel.problem_of(specialization, extents);
      if (ragged) interface_->make_ragged(problem);
      defaults_.push_back({space_defaults_->texts()[*number], std::move(problem)});
    } catch (const BadInput&) {  // no problem has such extents
    }
  };
  std::vector<std::pair<Extents, Extents>> boxes{{low, high}};
  for (int count = 0; !boxes.empty() && count < kMostBoxes; ++count) {
    std::tie(low, high) = boxes.back();
    boxes.pop_back();
    ask_at(low);
    ask_at(high);
    if (std::ranges::all_of(space_defaults_->within(low, high, ragged).numbers, is_known)) continue;
    std::size_t widest = 0;
    const auto ratio = [&](std::size_t axis) {
      return static_cast<double>(high[axis]) / static_cast<double>(low[axis]);
    };
    for (std::size_t axis = 1; axis < low.size(); ++axis) {
      if (ratio(axis) > ratio(widest)) widest = axis;
    }
    if (low.empty() || low[widest] == high[widest]) continue;
    const double middle = std::sqrt(static_cast<double>(low[widest]) * static_cast<double>(high[widest]));
    Extents below = high, above = low;
    below[widest] = std::clamp(static_cast<std::int64_t>(middle), low[widest], high[widest] - 1);
    above[widest] = below[widest] + 1;
    boxes.insert(boxes.begin(), {{low, below}, {above, high}});  // the largest first
  }
}

std::optional<RangePicks::Pick> RangePicks::at(const Problem& problem) const {
  if (!dispatch_) return std::nullopt;
  const std::uint32_t entry = dispatch_->find(interface_->table_point_of(problem), kernel_.extents_of(problem)).entry;
  if (entry == Cell::kNone) return std::nullopt;
  if (entry >= table_.cells.size()) return Pick{space_defaults_->texts()[entry - table_.cells.size()]};
  return Pick{table_.cells[entry].config, &table_.cells[entry]};
}

bool RangePicks::holds(const Problem& problem) const {
  return interface_ != nullptr && hull_.holds(interface_->table_point_of(problem));
}

std::vector<RangePicks::Default> defaults_served(const Kernel& kernel, const DeviceLimits& limits, RangeTable table) {
  for (const Problem& end : ends_of(kernel, table)) table.cells.push_back({.problem = end.text(), .config = ""});
  return RangePicks(kernel, limits, table).defaults();
}

}  // namespace moetune
