#include "report/family_grid.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "report/problem_grid.h"

namespace moetune {
namespace {

using Members = std::vector<std::size_t>;
using FamilyKey = std::tuple<std::string, std::string, std::string>;  // kernel, hardware, family

}  // namespace

std::vector<FamilyGrid> family_grids(const std::vector<WorkloadReport>& workloads, StoredSpaces& spaces) {
  std::map<FamilyKey, Members> families;
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    const WorkloadReport& report = workloads[i];
    if (report.family.empty() || !(report.stored.best_us > 0) || report.folded_into != 0) continue;
    families[{report.key().kernel, report.key().hardware.text(), report.family}].push_back(i);
  }
  std::vector<FamilyGrid> grids;
  for (auto& [family, members] : families) {
    std::ranges::stable_sort(
        members, [&](std::size_t a, std::size_t b) { return workloads[a].stored_at < workloads[b].stored_at; });
    std::vector<const Assignment*> dims;
    for (const std::size_t i : members) dims.push_back(&workloads[i].dims);
    for (ProblemGrid& plane : problem_grids(dims)) {
      const auto filled = std::ranges::count_if(plane.cells, [](const auto& cell) { return cell.has_value(); });
      if (plane.rows.size() < 2 || plane.columns.size() < 2 || filled < 4) continue;
      FamilyGrid& grid = grids.emplace_back(FamilyGrid{.kernel = std::get<0>(family),
                                                       .hardware = std::get<1>(family),
                                                       .family = std::get<2>(family),
                                                       .rest = std::move(plane.rest),
                                                       .down = std::move(plane.down),
                                                       .across = std::move(plane.across),
                                                       .rows = std::move(plane.rows),
                                                       .columns = std::move(plane.columns)});
      Variants variants(spaces);
      for (const std::optional<std::size_t>& cell : plane.cells) {
        grid.cells.emplace_back();
        if (!cell) continue;
        const std::size_t i = members[*cell];
        grid.cells.back() = GridCell{i, variants.number_of(workloads[i].key(), workloads[i].stored.best_config)};
      }
      grid.variants = variants.take_names();
    }
  }
  return grids;
}

}  // namespace moetune
