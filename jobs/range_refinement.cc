#include "jobs/range_refinement.h"

#include <algorithm>
#include <limits>

namespace moetune {
namespace {

// How much slower a cell would be with the choice of its neighbour: with the very configuration if it was tried here,
// else with the cubin. 0 if that is not known.
double regret_of_neighbour(const RangeCellState& here, const RangePick& own, const RangePick& neighbour) {
  if (own.config.empty() || neighbour.config.empty()) return 0;
  const auto look = here.looks.find(neighbour.config), best = here.looks.find(own.config);
  if (look != here.looks.end() && best != here.looks.end())
    return look->second.time_us / best->second.time_us - 1;
  const auto known = here.cubins.find(neighbour.cubin), mine = here.cubins.find(own.cubin);
  if (known == here.cubins.end() || mine == here.cubins.end() || mine->second.config.empty()) return 0;
  if (known->second.config.empty()) return std::numeric_limits<double>::infinity();
  return known->second.time_us / mine->second.time_us - 1;
}

}  // namespace

std::optional<std::pair<std::size_t, std::size_t>> worst_disagreement(const std::vector<PlannedCell>& cells,
                                                                      const RangeState& state,
                                                                      const std::vector<RangePick>& picks,
                                                                      double bound) {
  std::optional<std::pair<std::size_t, std::size_t>> worst;
  double most = bound;
  for (const auto& [one, other] : cells_beside_each_other(cells)) {
    // Closer than an octave a nearest cell is as good as another.
    if (grid_distance(cells[one].position, cells[other].position) < 0.98) continue;
    const double regret = std::max(regret_of_neighbour(state.cells[one], picks[one], picks[other]),
                                   regret_of_neighbour(state.cells[other], picks[other], picks[one]));
    if (!(regret > most)) continue;
    most = regret;
    worst = {one, other};
  }
  return worst;
}

}  // namespace moetune
