// Selects and orders the workloads that a list shows. Plain data and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/ranges.h"
#include "report/workload_report.h"

namespace moetune {

struct Selection {
  std::string kernel;       // "": all
  std::string hardware;     // a part of the GPU's name, whatever its case; "": all
  bool stale = false;       // only what is stale, for which find_stale() must have looked
  std::string sort;         // one of sort_orders(); "": by key
  std::uint64_t limit = 0;  // at most so many, after sorting; 0: all

  bool is_all() const { return kernel.empty() && hardware.empty() && !stale && limit == 0; }
};

// "key", "kernel", "problem", "hardware", "time" (slowest first), "speedup" (largest first), "age" (latest first),
// "trials" (most first).
std::vector<std::string> sort_orders();

// Throws BadInput unless moetune or one of the workloads has the kernel; "" is none.
void require_known_kernel(const std::string& kernel, const std::vector<Workload>& workloads);
bool is_selected(const Selection& selection, const std::string& kernel, const HardwareKey& hardware);
// Leaves what is selected, in order. Throws BadField (sort) for an unknown order.
void select(std::vector<WorkloadReport>& workloads, const Selection& selection);

}  // namespace moetune
