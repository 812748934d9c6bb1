#include "jobs/range_refinement.h"

#include <algorithm>
#include <limits>

namespace moetune {
namespace {

const RangeCell* served_cell(const RangeTable& table, const std::string& problem) {
  const auto found = std::find_if(table.cells.begin(), table.cells.end(),
                                  [&](const RangeCell& cell) { return cell.problem == problem; });
  return found == table.cells.end() ? nullptr : &*found;
}

}  // namespace

std::optional<std::pair<std::size_t, std::size_t>> worst_disagreement(
    const std::vector<PlannedCell>& cells, const RangeState& state, const RangeTable& table, double bound,
    const std::function<std::string(const std::string& config)>& cubin_of) {
  // How much slower a cell would be with the cubin that serves its neighbour.
  const auto regret_of_neighbour = [&](std::size_t at, std::size_t neighbour) -> double {
    const RangeCell* const here = served_cell(table, state.cells[at].problem);
    const RangeCell* const there = served_cell(table, state.cells[neighbour].problem);
    if (here == nullptr || there == nullptr) return 0;
    const auto known = state.cells[at].cubins.find(cubin_of(there->config));
    if (known == state.cells[at].cubins.end()) return 0;
    if (known->second.config.empty()) return std::numeric_limits<double>::infinity();
    return known->second.time_us / here->time_us - 1;
  };
  std::optional<std::pair<std::size_t, std::size_t>> worst;
  double most = bound;
  for (const bool uneven : {false, true}) {
    std::vector<std::size_t> indexes;
    std::vector<GridPoint> points;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].uneven != uneven) continue;
      indexes.push_back(i);
      points.push_back(cells[i].position);
    }
    for (const auto& [a, b] : grid_neighbours(points)) {
      // Closer than an octave a nearest cell is as good as another.
      if (grid_distance(points[a], points[b]) < 1) continue;
      const double regret =
          std::max(regret_of_neighbour(indexes[a], indexes[b]), regret_of_neighbour(indexes[b], indexes[a]));
      if (regret <= most) continue;
      most = regret;
      worst = {indexes[a], indexes[b]};
    }
  }
  return worst;
}

}  // namespace moetune
