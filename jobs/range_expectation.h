// What a range search expects to be the fastest between its cells: for each point of a grid that is finer than theirs,
// the table's configuration that a model of the trials ranks first (ranges/time_model.h). Nothing is measured.
//
// Deterministic. What it is made from must outlive it; not thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "jobs/cell_meter.h"
#include "jobs/range_plan.h"
#include "jobs/range_solution.h"
#include "jobs/range_state.h"
#include "jobs/session.h"
#include "ranges/expected_choices.h"

namespace moetune {

class RangeExpectation {
 public:
  // `threads`: 0 is one a core.
  RangeExpectation(const Session& session, const RangePlan& plan, const CellMeter& meter, std::size_t threads)
      : session_(session), plan_(plan), meter_(meter), threads_(threads) {}

  // Of the solution's cubins, but nothing that was withdrawn. A kind of work with few cells gets no grid.
  ExpectedChoices of(const RangeState& state, const RangeSolution& solution) const;

 private:
  const Session& session_;
  const RangePlan& plan_;
  const CellMeter& meter_;
  const std::size_t threads_;
};

// The coordinates of a grid on one axis: those of the cells, and between them as many as keep neighbours within
// `octaves`, widest gaps first, up to `most`. `middle` is the coordinate between two; nullopt if there is none. Of more
// cells' coordinates than a grid may have, some are left out.
std::vector<std::int64_t> finer_axis(
    std::vector<std::int64_t> of_cells, double octaves, std::size_t most,
    const std::function<std::optional<std::int64_t>(std::int64_t, std::int64_t)>& middle);

}  // namespace moetune
