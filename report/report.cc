#include "report/report.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/error.h"
#include "cache/merge.h"
#include "kernels/registry.h"
#include "report/inheritance.h"
#include "report/staleness.h"

namespace moetune {
namespace {

constexpr std::size_t kMostJudged = 500;  // of a kernel, in brief

void read_workloads(const Cache& cache, const ReportRequest& request, const std::vector<Workload>& all,
                    StoredSpaces& spaces, Report& report) {
  report.workloads.reserve(all.size());
  for (const Workload& workload : all) {
    if (request.stop.stop_requested()) return;
    const std::string& kernel = request.selection.kernel;
    if (is_recording(workload.key) || (!kernel.empty() && workload.key.kernel != kernel)) continue;
    WorkloadReport one =
        read_workload(cache, workload, spaces, request.brief ? WinnerParts::figures : WinnerParts::without_cubins);
    const bool says_something = one.stored.best_us > 0 || one.stored.trials > 0 || !one.stored.damage.empty();
    if (says_something) report.workloads.push_back(std::move(one));
  }
}

void read_trials(const Cache& cache, const ReportRequest& request, std::vector<WorkloadReport>& workloads) {
  std::size_t all = 0;
  for (const WorkloadReport& one : workloads) all += one.stored.trials;
  const bool has_too_many = request.most_trials > 0 && all > request.most_trials;
  const std::size_t few = has_too_many ? workloads.size() * request.most_trials / all + 1 : workloads.size();
  for (const std::size_t i : evenly_spaced(workloads.size(), few)) {
    if (request.stop.stop_requested()) return;
    workloads[i].trials = series_of(cache.trials.of(workloads[i].stored.workload.id), kMostShownTrials, !request.brief);
  }
}

void read_sections(const Cache& cache, const ReportRequest& request, Report& report) {
  std::map<std::pair<bool, std::string>, std::map<std::string, std::vector<std::size_t>>> groups;
  for (std::size_t i = 0; i < report.workloads.size(); ++i) {
    const WorkloadReport& one = report.workloads[i];
    groups[{one.recorded(), one.key().hardware.text()}][one.key().kernel].push_back(i);
  }
  for (const auto& [group, kernels] : groups) {
    HardwareSection section{.hardware = report.workloads[kernels.begin()->second.front()].key().hardware};
    section.ceilings = stored_ceilings(&cache, section.hardware);
    for (const auto& [kernel, members] : kernels) {
      KernelSection& part = section.kernels.emplace_back();
      part.kernel = kernel;
      std::ranges::copy_if(members, std::back_inserter(part.workloads),
                           [&](std::size_t i) { return report.workloads[i].folded_into == 0; });
      std::vector<const WorkloadReport*> own;
      for (const std::size_t i : members)
        if (!report.workloads[i].trials.shown.empty()) own.push_back(&report.workloads[i]);
      if (!request.stop.stop_requested()) part.parameters = parameters_of(own);
    }
    report.hardware.push_back(std::move(section));
  }
}

}  // namespace

std::string hardware_title(const HardwareKey& hardware) {
  return hardware.name + (hardware.origin == "gpu" ? "" : " (recorded)");
}

Report read_report(const Cache* cache, const ReportRequest& request) {
  Report report{.now = request.now};
  const std::vector<Workload> all = cache != nullptr ? cache->workloads.all() : std::vector<Workload>();
  require_known_kernel(request.selection.kernel, all);
  if (cache == nullptr) return report;
  report.cache = cache->path().string();
  const std::shared_ptr<const void> snapshot = cache->snapshot();
  StoredSpaces spaces;
  read_workloads(*cache, request, all, spaces, report);
  find_stale(report.workloads, spaces, ledgers_beside(cache->path()),
             request.brief && !request.selection.stale ? kMostJudged : 0);
  find_earlier_winners(report.workloads);
  const std::vector<FamilyRange> tables = cache->ranges.read();
  fold_shapes(tables, report.workloads, spaces);
  select(report.workloads, request.selection);
  std::ranges::stable_partition(report.workloads, [](const auto& one) { return one.folded_into == 0; });
  read_trials(*cache, request, report.workloads);
  read_sections(*cache, request, report);
  if (!request.brief) report.grids = family_grids(report.workloads, spaces);
  report.ranges = read_ranges(*cache, all, tables, request.selection, !request.brief, report.workloads, spaces,
                              report.damaged_tables);
  find_inherited(report.workloads, report.ranges, all);
  report.advice = advise(report);
  return report;
}

}  // namespace moetune
