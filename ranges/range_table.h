// The result of a range search, for serving: a configuration for each cell of its grid, the default it was measured
// against, and how much the whole table loses at shapes that nobody measured (its certificate). Stored as JSON text
// beside the cubins.
//
// Plain values. parse() bounds what it takes in and throws BadInput; whoever serves a table still checks each problem
// and configuration against the kernel.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

struct RangeCell {
  // Slower than the default by no more is a tie, as in tuner/finals.h.
  static constexpr double kTie = 0.003;

  std::string problem;  // canonical text
  std::string config;   // canonical text
  double time_us = 0;
  double default_us = 0;            // 0 if there is no default
  double best_us = 0;               // of all cubins measured in the cell and the default
  std::string default_config = {};  // canonical text; "" in older tables, which did not keep it

  bool operator==(const RangeCell&) const = default;
  double regret() const { return time_us / best_us - 1; }
};

// Regret seen at random shapes that are no cells: the table's choice in a duel with the default and with the best of a
// short search of that shape's own. 0.02 is 2%.
struct RangeCertificate {
  std::size_t shapes = 0;  // 0: nothing was seen
  double median = 0, p95 = 0, worst = 0;
  double worst_to_default = 0;  // how much slower than the default at worst; below 0 if it always won
  std::size_t failed = 0;       // further shapes at which the table's choice does not run, or not rightly

  bool operator==(const RangeCertificate&) const = default;
  static RangeCertificate of(std::vector<double> regrets, const std::vector<double>& to_default);
};

struct RangeTable {
  static constexpr std::size_t kMostCells = 4096;

  std::string ranges;      // "batch=1..256,context=512..131072"
  double bound = 0;        // that was asked for
  bool kept = false;       // every cell is within it
  bool contended = false;  // some cell was measured while somebody else used the device: not for serving
  std::vector<RangeCell> cells;
  RangeCertificate certificate;

  bool operator==(const RangeTable&) const = default;
  double worst_cell() const;  // regret; 0 without cells

  std::string text() const;  // JSON
  static RangeTable parse(std::string_view text, std::string_view what);
};

}  // namespace moetune
