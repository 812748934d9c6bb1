// The measurements of a range search so far: every worthwhile cubin in every cell of the grid. Stored in the cache as
// JSON after each cell, so that a search that was killed goes on from there.
//
// Plain values; parse() throws BadInput for a text that is none of moetune's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

// A configuration and its time; without a configuration nothing of the cubin runs in the cell.
struct MeasuredConfig {
  std::string config;
  double time_us = 0;
  bool operator==(const MeasuredConfig&) const = default;
};

struct MeasuredCell {
  std::string problem;
  bool searched = false, contended = false;
  std::string unreachable;  // why nothing can be measured here: no legal configuration, too little memory; "": it can
  std::map<std::string, MeasuredConfig> cubins;    // by the compiled part of their configurations
  std::optional<MeasuredConfig> measured_default;  // the space's default
  std::string default_cubin;                       // that the default launches
  std::string judged;                              // what all that is true of (CellMeter::holds)

  bool operator==(const MeasuredCell&) const = default;
  bool is_measured() const { return !cubins.empty(); }
};

// A shape of the certificate. `failed`: the table's choice does not run there, or computes something else.
struct UnseenShape {
  std::string problem;
  std::string pick;  // the table's configuration for it
  std::string best;  // the fastest that met it there
  double pick_us = 0, best_us = 0;
  double default_us = 0;  // 0 if there is none
  bool failed = false;
  bool operator==(const UnseenShape&) const = default;
};

struct RangeState {
  std::string ranges;
  std::vector<std::string> cubins;  // the pool, in the order in which they proved worth it
  std::size_t idle = 0;             // searches in sequence that brought nothing to the pool
  std::vector<std::string> filled;  // cubins that the finer grid measures, chosen after the searches
  std::size_t taken_over = 0;       // cells after those of the coarse grid that a search of other ranges measured
  std::vector<MeasuredCell> cells;
  std::vector<UnseenShape> shapes;
  std::vector<std::string> withdrawn;  // configurations that failed at a shape which they were chosen for

  bool operator==(const RangeState&) const = default;
  std::string text() const;
  static RangeState parse(std::string_view text);
};

}  // namespace moetune
