#include "replay/recorded_rows.h"

#include <algorithm>
#include <numeric>

namespace moetune {

SortedRows sort_rows(std::vector<Parameter> parameters, std::vector<RecordedRow> rows) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return rows[a].point < rows[b].point; });
  std::vector<Position> positions;
  std::vector<RecordedTrial> trials;
  for (std::size_t i = 0; i < order.size(); ++i) {
    RecordedRow& row = rows[order[i]];
    if (i + 1 < order.size() && rows[order[i + 1]].point == row.point) continue;
    positions.insert(positions.end(), row.point.begin(), row.point.end());
    trials.push_back(std::move(row.trial));
  }
  return {LegalSpace(std::move(parameters), std::move(positions)), std::move(trials)};
}

}  // namespace moetune
