// How a range search begins with what an earlier one left.
#include <algorithm>

#include "base/error.h"
#include "jobs/range_relatives.h"
#include "jobs/range_search.h"

namespace moetune {

RangeState RangeSearch::progress() const {
  try {
    return store_.progress().value_or(RangeState{});
  } catch (const BadInput& error) {
    const std::string text = std::string("The range is measured anew: ") + error.what();
    context_.events.emit(Warning{WarningKind::history_left_out, text});
    return {};
  }
}

// Cells that no longer hold are measured again; what was found at shapes by their choices is forgotten with them.
void RangeSearch::forget_untrue(RangeState& known) const {
  bool is_any = false;
  for (RangeCellState& cell : known.cells) {
    if (!cell.is_measured() || meter_.holds(cell)) continue;
    cell = {.problem = cell.problem};
    is_any = true;
  }
  if (!is_any) return;
  known.shapes.clear();
  known.withdrawn.clear();
}

// A search of the same ranges goes on: its cells come in the order that they had. Of a search of other ranges, which
// these ones contain or overlap, cells that were measured are taken over. They count as cells of the grid, which has
// fewer of its own then.
void RangeSearch::restore_cells(const RangeState& known, bool goes_on) {
  const std::size_t first = goes_on ? std::min(plan_.coarse(), known.cells.size()) : 0;
  const std::size_t count =
      goes_on ? std::min(known.taken_over, known.cells.size() - first) : known.cells.size();
  for (std::size_t i = first; i < first + count; ++i) {
    if (goes_on || known.cells[i].is_measured()) plan_.restore(known.cells[i].problem);
  }
  state_.taken_over = plan_.cells().size() - plan_.coarse();
  plan_.fill();
  planned_at_first_ = plan_.cells().size();
  if (!goes_on) return;
  for (const RangeCellState& cell : known.cells) plan_.restore(cell.problem);
}

// Cells of a grid that is no longer asked for are left out.
void RangeSearch::resume() {
  RangeState known = progress();
  forget_untrue(known);
  relatives_ = cubins_of_relatives(*session_.cache(), key(), *session_.space_file(), meter_);
  state_.ranges = ranges_text(plan_.ranges());
  state_.cubins = known.cubins;
  state_.withdrawn = known.withdrawn;
  const bool goes_on =
      known.ranges == state_.ranges && (known.cells.empty() || plan_.is_of_base(known.cells.front().problem));
  if (goes_on) {
    state_.idle = known.idle;
    state_.filled = known.filled;
    state_.steps = known.steps;
    state_.shapes = known.shapes;
    state_.draw = known.draw;
  }
  restore_cells(known, goes_on);
  for (const PlannedCell& cell : plan_.cells()) {
    const std::string text = cell.problem.text();
    const auto found = std::ranges::find(known.cells, text, &RangeCellState::problem);
    state_.cells.push_back(found != known.cells.end() ? *found : RangeCellState{.problem = text});
    state_.cells.back().unreachable.clear();  // it may have been for want of memory
    // What it has as a neighbour of others, and as an unseen shape, is true of the other ranges' table.
    if (!goes_on) state_.cells.back().crossed = state_.cells.back().was_unseen = false;
    meter_.learn(state_.cells.back());
  }
  for (const std::string& config : state_.withdrawn) withdraw(config);
  solve_again();
  if (!state_.shapes.empty()) resumed_picks_ = solution_.picks;
}

}  // namespace moetune
