#include "report/page_ranges.h"

#include <algorithm>

#include "base/lists.h"
#include "report/page_text.h"

namespace moetune {
namespace {

// Positions of configurations in the list that a table's cells share.
class ConfigList {
 public:
  std::size_t position_of(const std::string& config) {
    const auto at = std::ranges::find(configs_, config);
    if (at != configs_.end()) return static_cast<std::size_t>(at - configs_.begin());
    configs_.push_back(config);
    return configs_.size() - 1;
  }
  Document document(std::size_t most) const {
    return gathered(configs_, [&](const std::string& config) { return page_text(config, most); });
  }

 private:
  std::vector<std::string> configs_;
};

Document timings_list(const RangeCellReport& cell) {
  if (cell.timings.empty()) return 0;
  Document list = Document::array();
  for (const Timing timing : kTimings) {
    const auto found = std::ranges::find(cell.timings, timing, &TimingResult::timing);
    list.push_back(found == cell.timings.end() ? Document(0) : page_number(found->winner_us));
  }
  return list;
}

std::string names_of(const std::vector<Timing>& timings) { return joined(timings, ", ", timing_name); }

Document grids_of(const RangeReport& range, std::size_t shown, std::size_t text) {
  Document list = Document::array();
  for (const ProblemGrid& grid : range.grids) {
    Document cells = Document::array();
    for (const std::optional<std::size_t>& cell : grid.cells)
      cells.push_back(cell && *cell < shown ? Document(*cell) : Document(-1));
    list.push_back({{"rest", page_text(grid.rest, text)},
                    {"down", page_text(grid.down, text)},
                    {"across", page_text(grid.across, text)},
                    {"rows", grid.rows},
                    {"columns", grid.columns},
                    {"cells", std::move(cells)}});
  }
  return list;
}

Document range_data(const Report& report, const RangeReport& range, std::size_t shown, std::size_t workloads,
                    std::size_t text) {
  const RangeTable& table = range.table;
  const RangeCertificate& seen = table.certificate;
  ConfigList configs;
  Document cells = Document::array(), variants = Document::array();
  for (std::size_t i = 0; i < shown; ++i) {
    const RangeCell& cell = table.cells[i];
    const RangeCellReport& more = range.cells[i];
    const bool linked = more.workload && *more.workload < workloads;
    cells.push_back({page_text(more.brief, text), configs.position_of(cell.config), more.variant,
                     page_number(cell.time_us), page_number(cell.default_us), page_number(cell.best_us),
                     linked ? report.workloads[*more.workload].stored.workload.id : 0, timings_list(more),
                     names_of(more.differing)});
  }
  for (const std::string& variant : range.variants) {
    if (variants.size() < shown) variants.push_back(page_text(variant, text));
  }
  return {{"kernel", page_name(range.key.kernel, text)},
          {"family", page_text(range.key.family, text)},
          {"hardware", page_name(hardware_title(range.key.hardware), text)},
          {"timing", timing_name(range.key.timing)},
          {"ranges", page_text(table.ranges, text)},
          {"bound", page_number(table.bound)},
          {"kept", table.kept},
          {"contended", table.contended},
          {"stored_at", page_text(range.stored_at, text)},
          {"cubins", range.cubins},
          {"total", table.cells.size()},
          {"folded", range.folded},
          {"worst_cell", page_number(table.worst_cell())},
          {"certificate",
           {seen.shapes, page_number(seen.median), page_number(seen.p95), page_number(seen.worst),
            page_number(seen.worst_to_default)}},
          {"inherited_by", Document::array()},
          {"timings", timings_sentence(range)},
          {"configs", configs.document(text)},
          {"variants", std::move(variants)},
          {"cells", std::move(cells)},
          {"grids", grids_of(range, shown, text)}};
}

}  // namespace

Document page_ranges(const Report& report, const PageBudget& budget, std::size_t workloads) {
  Document list = Document::array();
  std::vector<const RangeReport*> taken;
  std::size_t left = budget.cells;
  for (const RangeReport& range : report.ranges) {
    if (range.inherited_by) {
      const auto base = std::ranges::find_if(taken, [&](const RangeReport* one) { return one->key == range.key; });
      if (base != taken.end())
        list[static_cast<std::size_t>(base - taken.begin())]["inherited_by"].push_back(
            page_name(range.inherited_by->name, budget.text));
      continue;
    }
    if (taken.size() == budget.ranges) continue;
    const std::size_t shown = std::min(range.cells.size(), left);
    left -= shown;
    taken.push_back(&range);
    list.push_back(range_data(report, range, shown, workloads, budget.text));
  }
  return list;
}

}  // namespace moetune
