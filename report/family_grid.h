// The winners of one family as a table over two dimensions of the problem, such as batch and context. A family whose
// problems differ in more dimensions has a grid for each combination of the others. Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "report/workload_report.h"

namespace moetune {

struct GridCell {
  std::size_t workload = 0;  // its position in Report::workloads
  std::size_t variant = 0;   // equal ones share a cubin: the first is 0
};

struct FamilyGrid {
  std::string kernel, hardware;  // hardware: HardwareKey::text
  std::string family;
  std::string rest;                            // the other dimensions: "kv_heads=8"; "" if none differs
  std::string down, across;                    // names of dimensions
  std::vector<std::int64_t> rows, columns;     // their values, ascending
  std::vector<std::optional<GridCell>> cells;  // row by row
  std::vector<std::string> variants;           // the compiled part of their configurations
};

// Grids of the workloads with a best time; if several have one problem, the one stored last. Grids of fewer than four
// cells are left out.
std::vector<FamilyGrid> family_grids(const std::vector<WorkloadReport>& workloads, StoredSpaces& spaces);

}  // namespace moetune
