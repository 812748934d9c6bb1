#include "jobs/range_refinement.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace moetune {
namespace {

// What loses as much as the bound is worth another cell in a gap of so many octaves.
constexpr double kLeastOctaves = 0.5;
constexpr double kMostRegret = 1;  // that counts; of what does not run it is infinite

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

std::vector<std::pair<std::size_t, std::size_t>> disagreements(const std::vector<PlannedCell>& cells,
                                                               const RangeState& state,
                                                               const std::vector<RangePick>& picks,
                                                               double bound) {
  using Pair = std::pair<std::size_t, std::size_t>;
  std::vector<std::pair<double, Pair>> losses;
  for (const auto& [one, other] : cells_beside_each_other(cells)) {
    const double regret = std::max(regret_of_neighbour(state.cells[one], picks[one], picks[other]),
                                   regret_of_neighbour(state.cells[other], picks[other], picks[one]));
    const double loss =
        std::min(regret, kMostRegret) * std::sqrt(grid_distance(cells[one].position, cells[other].position));
    if (regret > bound && loss > kLeastOctaves * bound) losses.push_back({-loss, {one, other}});
  }
  std::ranges::sort(losses);
  std::vector<Pair> worst_first;
  for (const auto& [loss, pair] : losses) worst_first.push_back(pair);
  return worst_first;
}

}  // namespace moetune
