#include "jobs/range_hints.h"

#include <limits>

namespace moetune {

std::vector<CellMeter::Hint> nearest_hints(const std::vector<std::string>& cubins, const PlannedCell& cell,
                                           const std::vector<PlannedCell>& cells, const RangeState& state) {
  std::vector<CellMeter::Hint> hints;
  for (const std::string& name : cubins) {
    CellMeter::Hint hint{.cubin = name};
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < state.cells.size(); ++i) {
      const auto known = state.cells[i].cubins.find(name);
      if (known == state.cells[i].cubins.end() || known->second.config.empty()) continue;
      const double distance =
          grid_distance(cells[i].position, cell.position) + (cells[i].uneven != cell.uneven ? 1 : 0);
      if (distance >= least) continue;
      least = distance;
      hint.config = known->second.config;
      hint.problem = state.cells[i].problem;
    }
    hints.push_back(std::move(hint));
  }
  return hints;
}

}  // namespace moetune
