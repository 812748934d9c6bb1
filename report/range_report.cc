#include "report/range_report.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/format.h"
#include "base/lists.h"
#include "jobs/range/served_table.h"
#include "kernels/registry.h"
#include "ranges/grid.h"
#include "soundness/soundness.h"

namespace moetune {
namespace {

// The GPUs of the cache by their key, with the families that each has winners of.
struct KnownGpu {
  HardwareKey hardware;
  std::set<std::pair<std::string, std::string>> families;
};

std::map<std::string, KnownGpu> known_gpus(const Cache& cache, const std::vector<Workload>& workloads,
                                           const std::vector<RangeReport>& tables) {
  std::map<std::string, KnownGpu> known;
  const auto at = [&](const HardwareKey& hardware) -> KnownGpu& {
    return known.try_emplace(hardware.text(), KnownGpu{hardware, {}}).first->second;
  };
  std::set<std::pair<std::string, std::string>> families;
  for (const RangeReport& one : tables) {
    families.emplace(one.key.kernel, one.key.family);
    at(one.key.hardware).families.emplace(one.key.kernel, one.key.family);
  }
  KnownGpu* last = nullptr;
  for (const Workload& workload : workloads) {  // one winner of a family is enough to know
    if (last == nullptr || !last->hardware.is_same(workload.key.hardware)) last = &at(workload.key.hardware);
    KnownGpu& gpu = *last;
    const std::pair family(workload.key.kernel, workload.family);
    if (is_recording(workload.key) || !families.contains(family) || gpu.families.contains(family)) continue;
    if (cache.winners.find_sound(workload.id)) gpu.families.insert(family);
  }
  return known;
}

// As the runtime chooses it: of the same architecture, with the nearest number of SMs.
const RangeReport* donor(const std::vector<RangeReport>& tables, const std::pair<std::string, std::string>& family,
                         const HardwareKey& hardware) {
  const RangeReport* best = nullptr;
  const auto distance = [&](const RangeReport& one) { return std::abs(one.key.hardware.sm_count - hardware.sm_count); };
  for (const RangeReport& one : tables) {
    const HardwareKey& there = one.key.hardware;
    if (std::pair(one.key.kernel, one.key.family) != family || there.origin != "gpu" ||
        there.compute_capability != hardware.compute_capability)
      continue;
    if (best == nullptr || distance(one) < distance(*best)) best = &one;
  }
  return best;
}

std::vector<const Assignment*> dims_of(const std::vector<Problem>& problems) {
  return gathered(problems, [](const Problem& problem) { return &problem.dims; });
}

// Puts a ragged batch into the heat map's line of the full batch whose place it has in the dispatch table, or into the
// nearest line: its own counts differ from column to column.
void align_ragged(std::vector<Problem>& problems) {
  if (problems.empty()) return;
  const Kernel& kernel = find_kernel(problems.front().kernel);
  if (kernel.free_dimensions().empty()) return;
  const std::string& counted = kernel.free_dimensions().front();
  const std::unique_ptr<const FamilyInterface> interface = kernel.family_interface(problems.front());
  std::set<std::int64_t> lines;
  std::vector<std::pair<Problem*, std::int64_t>> ragged;  // with the count of the even work
  for (Problem& problem : problems) {
    const TablePoint point = interface->table_point_of(problem);
    if (point.ragged)
      ragged.emplace_back(&problem, even_count(*interface, kernel.extents_of(problem), point));
    else
      lines.insert(problem[counted]);
  }
  for (const auto& [problem, count] : ragged) {
    const auto past = lines.lower_bound(count);
    std::int64_t line = past != lines.end() ? *past : count;
    if (past != lines.begin() && (past == lines.end() || count * count < *past * *std::prev(past)))
      line = *std::prev(past);
    problem->dims.set(counted, Value::integer(line));
  }
}

void lay_out(RangeReport& report, std::vector<Problem> problems) {
  const std::vector<std::string> parts = differing_parts(dims_of(problems));
  for (std::size_t i = 0; i < report.cells.size(); ++i)
    report.cells[i].brief = i < parts.size() && !parts[i].empty() ? parts[i] : report.table.cells[i].problem;
  try {
    const std::vector<std::string> names = gathered(parse_ranges(report.table.ranges), &DimensionRange::name);
    align_ragged(problems);
    report.grids = problem_grids(dims_of(problems), names);
  } catch (const BadInput&) {  // of another version
  }
}

// The report's workloads by what a cell of a range on their hardware is.
using CellKey = std::tuple<std::string, std::string, std::string, Timing>;

std::map<CellKey, std::size_t> by_cell(const std::vector<WorkloadReport>& workloads) {
  std::map<CellKey, std::size_t> found;
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    const WorkloadKey& key = workloads[i].key();
    const auto [at, fresh] = found.try_emplace({key.kernel, key.problem, key.hardware.text(), key.timing}, i);
    if (!fresh && workloads[at->second].stored_at < workloads[i].stored_at) at->second = i;
  }
  return found;
}

void describe_cells(RangeReport& report, std::vector<Problem> problems, const std::map<CellKey, std::size_t>& searches,
                    const std::vector<WorkloadReport>& workloads, StoredSpaces& spaces) {
  const RangeKey& key = report.key;
  Variants variants(spaces);
  for (const RangeCell& cell : report.table.cells) {
    RangeCellReport& made = report.cells.emplace_back();
    made.variant = variants.number_of(
        {key.kernel, cell.problem, key.hardware, key.source_digest, key.toolchain, key.timing}, cell.config);
    const auto found = searches.find({key.kernel, cell.problem, key.hardware.text(), key.timing});
    if (found == searches.end()) continue;
    const WorkloadReport& own = workloads[found->second];
    made.workload = found->second;
    made.timings = own.timings();
    made.differing = differing_timings(made.timings, own.stored.best_config);
  }
  report.variants = variants.take_names();
  lay_out(report, std::move(problems));
}

Document cell_document(const RangeReport& report, std::size_t i, const std::vector<WorkloadReport>& workloads) {
  const RangeCell& cell = report.table.cells[i];
  const RangeCellReport& more = report.cells[i];
  Document document = {{"problem", cell.problem},
                       {"config", cell.config},
                       {"variant", more.variant},
                       {"time_us", number_or_null(cell.time_us)},
                       {"default_us", number_or_null(cell.default_us)},
                       {"best_us", number_or_null(cell.best_us)},
                       {"regret", cell.regret()}};
  if (more.workload) {
    const StoredResult& own = workloads[*more.workload].stored;
    document["workload"] = own.workload.id;
    document["timings"] = timings_document(more.timings, own.best_config);
  }
  return document;
}

}  // namespace

std::vector<RangeReport> read_ranges(const Cache& cache, const std::vector<Workload>& stored,
                                     const std::vector<FamilyRange>& tables, const Selection& selection,
                                     bool with_cells, const std::vector<WorkloadReport>& workloads,
                                     StoredSpaces& spaces, std::vector<std::string>& damaged) {
  std::map<CellKey, std::size_t> searches;
  if (with_cells) searches = by_cell(workloads);
  std::map<std::int64_t, std::size_t> folded;
  for (const WorkloadReport& one : workloads)
    if (one.folded_into != 0) ++folded[one.folded_into];
  std::vector<RangeReport> all;
  for (const FamilyRange& range : tables) {
    const RangeKey& key = range.key;
    const bool is_fresh =
        spaces.is_current({key.kernel, "", key.hardware, key.source_digest, key.toolchain, key.timing});
    if (!is_selected(selection, key.kernel, key.hardware) || (selection.stale && is_fresh)) continue;
    try {
      SoundRange sound =
          with_cells ? read_sound_range(range, spaces.known_kernel(key.kernel, key.source_digest))
                     : SoundRange{.table = RangeTable::parse(range.table, "it"), .problems = {}, .outdated = ""};
      all.push_back({.key = range.key,
                     .id = range.id,
                     .table = std::move(sound.table),
                     .cubins = range.variants.size(),
                     .stored_at = range.stored_at});
      all.back().folded = folded[range.id];
      if (with_cells) describe_cells(all.back(), std::move(sound.problems), searches, workloads, spaces);
    } catch (const BadInput& wrong) {
      damaged.push_back(place_of(range) + " is left out: " + wrong.what());
    }
  }
  for (const DamagedRange& one : cache.ranges.mismatched()) {
    if (is_selected(selection, one.range.key.kernel, one.range.key.hardware))
      damaged.push_back(place_of(one.range) + " is left out: " + one.what);
  }
  std::set<std::pair<std::string, std::string>> families;
  for (const RangeReport& one : all) families.emplace(one.key.kernel, one.key.family);
  std::vector<RangeReport> inherited;
  for (const auto& [text, gpu] : known_gpus(cache, stored, all)) {
    for (const auto& family : families) {
      if (gpu.hardware.origin != "gpu" || gpu.families.contains(family)) continue;
      if (const RangeReport* const from = donor(all, family, gpu.hardware)) {
        inherited.push_back(*from);
        inherited.back().inherited_by = gpu.hardware;
      }
    }
  }
  all.insert(all.end(), inherited.begin(), inherited.end());
  return all;
}

void fold_shapes(const std::vector<FamilyRange>& tables, std::vector<WorkloadReport>& workloads, StoredSpaces& spaces) {
  std::vector<WorkloadReport*> without_winner;
  for (WorkloadReport& one : workloads) {
    if (!one.stored.winner && one.stored.damage.empty() && one.stored.known.problem) without_winner.push_back(&one);
  }
  for (const FamilyRange& range : tables) {
    const auto is_alike = [&](const WorkloadReport* one) {
      const WorkloadKey& key = one->key();
      return key.kernel == range.key.kernel && one->family == range.key.family &&
             key.source_digest == range.key.source_digest && key.toolchain == range.key.toolchain &&
             key.timing == range.key.timing && key.hardware.is_same(range.key.hardware);
    };
    const Kernel* const kernel = known_kernel(range.key.kernel);
    if (kernel == nullptr || std::ranges::none_of(without_winner, is_alike)) continue;
    try {
      read_sound_range(range, spaces.known_kernel(range.key.kernel, range.key.source_digest));
      const ServedTable table(*kernel, range);
      for (WorkloadReport* const one : without_winner)
        if (is_alike(one) && table.holds(*one->stored.known.problem)) one->folded_into = range.id;
    } catch (const BadInput&) {  // of another version, or it cannot be true
    }
  }
}

std::string timings_sentence(const RangeReport& report) {
  std::size_t known = 0, other = 0;
  std::map<Timing, std::size_t> by_timing;
  for (const RangeCellReport& cell : report.cells) {
    if (cell.timings.empty()) continue;
    ++known;
    if (!cell.differing.empty()) ++other;
    for (const Timing timing : cell.differing) ++by_timing[timing];
  }
  if (known == 0) return "";
  if (other == 0)
    return format("In all %zu cells with times under each timing the same configuration wins under all.", known);
  const auto counted = [](const auto& one) {
    return std::string(timing_name(one.first)) + format(" in %zu", one.second);
  };
  return format("In %zu of %zu cells another configuration would win under another timing: ", other, known) +
         joined(by_timing, ", ", counted) + ".";
}

Document range_report_document(const RangeReport& report, const std::vector<WorkloadReport>& workloads) {
  const RangeTable& table = report.table;
  Document cells = Document::array();
  if (!report.inherited_by) {
    for (std::size_t i = 0; i < report.cells.size(); ++i) cells.push_back(cell_document(report, i, workloads));
  }
  return {{"kernel", report.key.kernel},
          {"family", report.key.family},
          {"hardware", report.key.hardware.name},
          {"inherited", report.inherited_by.has_value()},
          {"inherited_by", report.inherited_by ? Document(report.inherited_by->name) : Document(nullptr)},
          {"timing", timing_name(report.key.timing)},
          {"ranges", table.ranges},
          {"key", "table:" + std::to_string(report.id)},
          {"cells", table.cells.size()},
          {"folded", report.folded},
          {"cubins", report.cubins},
          {"variants", report.variants},
          {"bound", table.bound},
          {"kept", table.kept},
          {"worst_regret", table.worst_cell()},
          {"certificate", certificate_document(table.certificate)},
          {"contended", table.contended},
          {"stored_at", report.stored_at},
          {"table", std::move(cells)}};
}

}  // namespace moetune
