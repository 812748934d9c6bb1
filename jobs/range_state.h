// What a range search has measured so far: every cubin that is worth it in every cell of the grid. Stored in the cache
// as JSON after each cell, so that a search that was killed goes on from there.
//
// Plain values; parse() throws BadInput for a text that is none of moetune's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ranges/range_table.h"
#include "ranges/set_cover.h"

namespace moetune {

// A configuration and its time; without a configuration nothing of the cubin runs in the cell.
struct MeasuredConfig {
  std::string config;
  double time_us = 0;
  bool operator==(const MeasuredConfig&) const = default;
};

struct RangeCellState {
  std::string problem;
  bool searched = false, contended = false;
  std::map<std::string, MeasuredConfig> cubins;  // by the compiled part of their configurations
  std::optional<MeasuredConfig> fallback;        // the space's default

  bool operator==(const RangeCellState&) const = default;
  bool is_measured() const { return !cubins.empty(); }
};

// A shape of the certificate.
struct UnseenShape {
  std::string problem;
  std::string pick;  // the table's configuration for it
  double pick_us = 0, best_us = 0;
  double default_us = 0;  // 0 if there is none
  bool operator==(const UnseenShape&) const = default;
};

struct RangeState {
  std::string ranges;
  std::vector<std::string> cubins;  // the pool, in the order in which they proved worth it
  std::vector<RangeCellState> cells;
  std::vector<UnseenShape> shapes;

  bool operator==(const RangeState&) const = default;
  std::string text() const;
  static RangeState parse(std::string_view text);
};

struct RangeSolution {
  Cover cover;       // positions in RangeState::cubins
  RangeTable table;  // of the measured cells; the certificate is of RangeState::shapes
};

// The smallest set of cubins and what each cell then picks.
RangeSolution solve(const RangeState& state, double bound, std::size_t variants);

}  // namespace moetune
