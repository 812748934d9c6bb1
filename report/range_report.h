// The range tables of a cache as a report shows them: what they serve, and what they were seen to lose. Plain data; for
// the thread that owns the cache.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "jobs/session/documents.h"
#include "ranges/range_table.h"
#include "report/problem_grid.h"
#include "report/selection.h"
#include "report/workload_report.h"

namespace moetune {

// Facts of a cell beside its times.
struct RangeCellReport {
  std::string brief;                    // the dimensions in which it differs: "batch=8,context=4096"
  std::size_t variant = 0;              // equal ones share a cubin: a position in RangeReport::variants
  std::optional<std::size_t> workload;  // of its own search: a position in Report::workloads
  std::vector<TimingResult> timings;    // of that search's winner; empty if they were not measured
  std::vector<Timing> differing;        // the timings under which another configuration won
};

struct RangeReport {
  RangeKey key;
  std::int64_t id = 0;     // FamilyRange::id
  std::size_t folded = 0;  // workloads of the report that are no more than shapes of this table
  RangeTable table;
  std::vector<RangeCellReport> cells;  // those of `table`, in order; empty unless they are asked for, and so are
  std::vector<std::string> variants;   // the compiled part of their configurations
  std::vector<ProblemGrid> grids;      // over the dimensions of its ranges; none if all cells are one point
  std::size_t cubins = 0;              // that are stored; 0 if nothing was compiled
  std::string stored_at;
  // A GPU of the cache that has nothing of the family by itself, and is served by this table of another one as the
  // runtime would choose it; nullopt for the table's own GPU.
  std::optional<HardwareKey> inherited_by;
};

// Those of Ranges::read() that are selected, tables first, inherited ones behind their own. Damaged tables, and those
// that cannot be true, are left out, with a sentence in `damaged`: without cells by a table's own figures alone.
// `workloads` are the report's, `stored` all of the cache.
std::vector<RangeReport> read_ranges(const Cache& cache, const std::vector<Workload>& stored,
                                     const std::vector<FamilyRange>& tables, const Selection& selection,
                                     bool with_cells, const std::vector<WorkloadReport>& workloads,
                                     StoredSpaces& spaces, std::vector<std::string>& damaged);

// Fills in WorkloadReport::folded_into: what has trials and no winner, of a problem between the cells of a table that
// was made with the same sources and compiler on the same hardware.
void fold_shapes(const std::vector<FamilyRange>& tables, std::vector<WorkloadReport>& workloads, StoredSpaces& spaces);

// "In 3 of 12 cells another configuration would win: overlapped 2, alone 1." Empty if no cell has times under all
// timings.
std::string timings_sentence(const RangeReport& report);

Document range_report_document(const RangeReport& report, const std::vector<WorkloadReport>& workloads);

}  // namespace moetune
