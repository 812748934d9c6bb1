// A Report is a cache's workloads, read once: the terminal, the page and the files of `moetune report` are made of
// it. Recordings in progress and workloads of which nothing is known are left out.
//
// A Report is plain data and outlives the cache that it was read from; reading is for the thread that owns the cache.
// Throws BrokenEnvironment if the file is damaged. A damaged record is a field of its workload.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/time_stamp.h"
#include "report/family_grid.h"
#include "report/kernel_report.h"
#include "report/range_report.h"
#include "report/selection.h"
#include "report/workload_report.h"
#include "tuner/ceilings.h"

namespace moetune {

// One kernel on one hardware.
struct KernelSection {
  std::string kernel;
  std::vector<std::size_t> workloads;  // positions in Report::workloads; without those that are folded into a table
  ParameterReport parameters;
};

struct HardwareSection {
  HardwareKey hardware;
  Ceilings ceilings;
  std::vector<KernelSection> kernels;

  bool recorded() const { return hardware.origin != "gpu"; }
};

// A command worth running next, and why.
struct Advice {
  std::string command;
  std::string reason;
};

struct Report {
  std::string cache;  // the path
  UtcSeconds now{};
  std::vector<WorkloadReport> workloads;  // those that are folded into a table last
  std::vector<HardwareSection> hardware;  // GPUs first, then recordings
  std::vector<FamilyGrid> grids;
  std::vector<RangeReport> ranges;
  std::vector<std::string> damaged_tables;  // a sentence for each range table that is left out
  std::vector<Advice> advice;
};

struct ReportRequest {
  Selection selection;
  UtcSeconds now{};
  // Trials are read one by one of so many workloads that these have about as many, spread evenly; 0: of all.
  std::size_t most_trials = 0;
  // For a terminal: without the cells of range tables, the families' grids and the seconds of trials. Winners are
  // believed if their figures can be (WinnerParts::figures). Unless the stale ones are selected, find_stale() has a
  // bound.
  bool brief = false;
  std::stop_token stop;  // ends the reading; what was read so far is returned
};

// Throws BadInput for a kernel that neither moetune nor the cache has. `cache` may be null: nothing was tuned yet.
Report read_report(const Cache* cache, const ReportRequest& request);

// "NVIDIA H200", "Test GPU (recorded)".
std::string hardware_title(const HardwareKey& hardware);

// At most a handful, the most useful first.
std::vector<Advice> advise(const Report& report);

}  // namespace moetune
