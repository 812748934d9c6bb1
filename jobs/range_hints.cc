#include "jobs/range_hints.h"

#include <algorithm>

namespace moetune {
namespace {

void add_origin(CellMeter::Hint& hint, const std::string& config, const std::string& problem) {
  const auto is_same = [&](const CellMeter::Hint::Origin& one) { return one.config == config; };
  if (std::ranges::none_of(hint.origins, is_same)) hint.origins.push_back({config, problem});
}

}  // namespace

std::vector<std::size_t> by_distance(const PlannedCell& from, const std::vector<PlannedCell>& cells) {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const double other_kind = cells[i].uneven != from.uneven ? 1 : 0;
    order.emplace_back(grid_distance(cells[i].position, from.position) + other_kind, i);
  }
  std::ranges::sort(order);
  std::vector<std::size_t> indexes;
  for (const auto& [distance, index] : order) indexes.push_back(index);
  return indexes;
}

std::vector<CellMeter::Hint> nearest_hints(const std::vector<std::string>& cubins, const PlannedCell& cell,
                                           const std::vector<PlannedCell>& cells, const RangeState& state,
                                           const std::vector<RangePick>& picks, std::size_t origins) {
  const std::vector<std::size_t> order = by_distance(cell, cells);
  // If time runs out, then for what serves farthest away.
  std::vector<std::string> names;
  const auto take = [&](const std::string& name) {
    const bool is_wanted = std::ranges::find(cubins, name) != cubins.end();
    if (is_wanted && std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const std::size_t i : order) {
    if (i < picks.size()) take(picks[i].cubin);
  }
  for (const std::string& name : cubins) take(name);
  std::vector<CellMeter::Hint> hints;
  for (const std::string& name : names) {
    CellMeter::Hint hint{.cubin = name, .origins = {}};
    std::size_t found = 0;
    for (const std::size_t i : order) {
      if (found == origins) break;
      if (i >= state.cells.size()) continue;
      const RangeCellState& other = state.cells[i];
      const auto known = other.cubins.find(name);
      if (known == other.cubins.end() || known->second.config.empty()) continue;
      ++found;
      add_origin(hint, known->second.config, other.problem);
      if (i < picks.size() && picks[i].cubin == name) add_origin(hint, picks[i].config, other.problem);
    }
    hints.push_back(std::move(hint));
  }
  return hints;
}

}  // namespace moetune
