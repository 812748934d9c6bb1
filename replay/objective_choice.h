// Chooses the figure of a results file that a search is for. Pure functions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "replay/recorded_rows.h"
#include "search/objective.h"

namespace moetune {

// The objectives that a results file states.
struct StatedObjectives {
  static constexpr std::size_t kMost = 1024;  // names and figures that a reader takes

  std::vector<std::string> names;                // none: the time
  std::map<std::string, bool> larger_is_better;  // where the file says so
  std::map<std::string, std::string> units;      // of each figure that a row has; "" where the file has none
};

// For a reader of no figure: any objective that the file has.
inline constexpr const char* kAnyObjective = "*";

// `wanted` is "NAME", "NAME:min" or "NAME:max"; "" for the file's own. Throws BadField for a figure that no row has,
// for several objectives of which none is wanted, and if nothing says whether a larger or a smaller figure is better.
Objective choose_objective(const std::string& wanted, const StatedObjectives& stated, std::string_view file);

// Microseconds in the unit; nullopt if it is no unit of time. "ms", "Milliseconds", "miliseconds" (as T4 files say).
std::optional<double> microseconds_in(std::string_view unit);

// A row and its figure, in the objective's unit: microseconds if that is a time.
struct FigureRow {
  RecordedRow row;
  double figure = 0;
};

// Takes the figure, and the samples of a time, of a row that has not failed. Such as nobody measured (not finite, a
// time of zero or of years) cost the row, which has failed then. Throws BadInput naming `row` for a negative time.
void take_figure(FigureRow& taken, double figure, std::vector<double> samples_us, const Objective& objective,
                 const std::string& row);

// The trials of rows in the order of the space: times, or costs from 1000 (the best) on, and then the figures
// themselves in `objective`.
SortedRows rows_by_objective(std::vector<Parameter> parameters, std::vector<FigureRow> rows, Objective& objective);

}  // namespace moetune
