// The table that a range search's measurements give: the smallest set of cubins, and for each cell the configuration
// that serves it and its surroundings. Pure.
#pragma once

#include <string>
#include <vector>

#include "jobs/range_plan.h"
#include "jobs/range_state.h"
#include "ranges/range_table.h"
#include "ranges/set_cover.h"

namespace moetune {

// A cell whose measurements have a say in what a cell picks.
struct CellNeighbour {
  std::size_t cell = 0;
  double weight = 0;  // 1: as much as the cell itself
};
// One list a cell.
using RangeNeighbours = std::vector<std::vector<CellNeighbour>>;

// The cells of one kind around each, as far as a cell serves or little farther.
RangeNeighbours neighbours_of(const std::vector<PlannedCell>& cells);

struct RangePick {
  std::string cubin, config;  // "": nothing serves the cell
  bool operator==(const RangePick&) const = default;
};

struct RangeSolution {
  std::vector<std::string> cubins;  // that the table launches, those of defaults included: `variants` at most
  RangeTable table;                 // of the measured cells; the certificate is of RangeState::shapes
  std::vector<RangePick> picks;     // of all cells of the state, in order
  std::size_t left_to_default = 0;  // cells in which no cubin is faster than the default, which serves
  // Cells that lose more than the bound; the worst first.
  std::vector<std::size_t> past_bound;
};

// The pool, then defaults' cubins that did not join it: those that a table may launch.
std::vector<std::string> choosable_cubins(const RangeState& state);

// Chooses the cubins by the cells' duels. A cell then picks, of the configurations that are within a quarter of the
// bound of the fastest there and no slower than the default, the one that loses least at the cell and around it: what
// is best at one shape by a lucky number of blocks may lose much beside it. Cells that were measured beside somebody
// else's work are left out, unless all were. Without neighbours all pick the fastest.
RangeSolution solve(const RangeState& state, double bound, std::size_t variants,
                    const RangeNeighbours& neighbours = {});

}  // namespace moetune
