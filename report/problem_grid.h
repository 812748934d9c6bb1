// Problems as tables over two of their dimensions, such as batch and context: a table for each combination of what else
// differs. Pure functions on plain data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "jobs/session/stored_space.h"
#include "search/assignment.h"

namespace moetune {

inline constexpr std::size_t kMostGridLines = 64;

struct ProblemGrid {
  std::string rest;                               // the other dimensions: "kv_heads=8"; "" if none differs
  std::string down, across;                       // names of dimensions; `down` is "" with one row, for one dimension
  std::vector<std::int64_t> rows, columns;        // their values, ascending
  std::vector<std::optional<std::size_t>> cells;  // row by row: positions in the list

  std::optional<std::size_t>& cell(std::size_t row, std::size_t column) { return cells[row * columns.size() + column]; }
};

// Down and across are the integer dimensions with most values, the most across; those of `wanted` alone unless it is
// empty. If several problems are equal, the last is taken; values past kMostGridLines of a dimension are left out.
// Empty if nothing differs. `dims` must all be readable.
std::vector<ProblemGrid> problem_grids(const std::vector<const Assignment*>& dims,
                                       const std::vector<std::string>& wanted = {});

// "batch=8,context=4096" for each: the dimensions in which the problems differ.
std::vector<std::string> differing_parts(const std::vector<const Assignment*>& dims);

// Numbers for cubins by the compiled part of configurations, in the order in which they are met.
class Variants {
 public:
  explicit Variants(StoredSpaces& spaces) : spaces_(spaces) {}
  std::size_t number_of(const WorkloadKey& key, const std::string& config);
  std::vector<std::string> take_names() { return std::move(names_); }

 private:
  StoredSpaces& spaces_;
  std::map<std::string, std::size_t> numbers_;  // by kernel and configuration
  std::vector<std::string> names_;
};

}  // namespace moetune
