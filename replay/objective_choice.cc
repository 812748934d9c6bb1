#include "replay/objective_choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/format.h"
#include "base/lists.h"
#include "base/suggest.h"
#include "replay/number_ranges.h"
#include "replay/result_domain.h"

namespace moetune {
namespace {

struct Direction {
  std::string_view name;
  bool larger_is_better;
};
// The names that tuners give their usual objectives.
constexpr std::array kDirections = {
    Direction{"time", false},       Direction{"energy", false},      Direction{"cost", false},
    Direction{"loss", false},       Direction{"nvml_energy", false}, Direction{"ps_energy", false},
    Direction{"pmt_energy", false}, Direction{"fitness", true},      Direction{"FLOP/s", true},
    Direction{"GFLOP/s", true},     Direction{"TFLOP/s", true},      Direction{"MB/s", true},
    Direction{"GB/s", true},        Direction{"TB/s", true},         Direction{"GFLOPS/W", true},
    Direction{"TFLOPS/W", true},    Direction{"GFLOP/J", true},      Direction{"TFLOP/J", true}};

struct TimeUnit {
  std::string_view name;
  double us;
};
constexpr std::array kTimeUnits = {TimeUnit{"ns", 1e-3},
                                   TimeUnit{"nanoseconds", 1e-3},
                                   TimeUnit{"us", 1},
                                   TimeUnit{"µs", 1},
                                   TimeUnit{"microseconds", 1},
                                   TimeUnit{"ms", 1e3},
                                   TimeUnit{"milliseconds", 1e3},
                                   TimeUnit{"miliseconds", 1e3},
                                   TimeUnit{"s", 1e6},
                                   TimeUnit{"seconds", 1e6}};

constexpr double kBestCost = 1000, kMostCost = kMostTime_us;
constexpr double kNoTime_us = 1e23;  // 1e20 ms: Kernel Tuner's for failures, before it had names for them

// "GFLOP/s:max" -> "GFLOP/s", true.
std::optional<bool> take_direction(std::string& name) {
  for (const auto& [ending, larger] : {std::pair(std::string_view(":max"), true), {":min", false}}) {
    if (!name.ends_with(ending)) continue;
    name.resize(name.size() - ending.size());
    return larger;
  }
  return std::nullopt;
}

std::string only_name(const StatedObjectives& stated, const std::string& file) {
  if (stated.names.empty()) return "time";
  if (stated.names.size() == 1) return stated.names.front();
  std::string names, options;
  for (const std::string& name : stated.names) {
    names += (names.empty() ? "'" : ", '") + brief_name(name) + "'";
    options += (options.empty() ? "" : " or ") + brief_name(name);
    if (names.size() > 400) break;
  }
  throw BadField("objective", file + " has the objectives " + names + ", and a search takes one of them: " + options);
}

std::optional<bool> known_direction(const std::string& name, const StatedObjectives& stated) {
  const auto said = stated.larger_is_better.find(name);
  if (said != stated.larger_is_better.end()) return said->second;
  const auto known = std::ranges::find(kDirections, name, &Direction::name);
  return known == kDirections.end() ? std::nullopt : std::optional(known->larger_is_better);
}

// Costs keep the ratios of figures that are all of one sign, and the differences of others.
class FigureCost {
 public:
  FigureCost(double best, double worst) : best_(best), worst_(worst), by_ratio_(best > 0 && worst > 0) {}

  double operator()(double figure) const {
    if (figure == best_) return kBestCost;
    const double cost = by_ratio_ ? kBestCost * (best_ < worst_ ? figure / best_ : best_ / figure)
                                  : kBestCost * (1 + (figure - best_) / (worst_ - best_));
    return std::clamp(cost, kBestCost, kMostCost);
  }

 private:
  double best_, worst_;
  bool by_ratio_;
};

}  // namespace

std::optional<double> microseconds_in(std::string_view unit) {
  const auto known = std::ranges::find(kTimeUnits, lower_case(std::string(unit)), &TimeUnit::name);
  return known == kTimeUnits.end() ? std::nullopt : std::optional(known->us);
}

Objective choose_objective(const std::string& wanted, const StatedObjectives& stated, std::string_view file) {
  Objective objective{.name = wanted, .unit = {}, .larger_is_better = false, .figures = {}, .best = 0};
  std::optional<bool> larger = take_direction(objective.name);
  if (objective.name == kAnyObjective) {
    objective.name = stated.names.empty() ? "time" : stated.names.front();
    if (!stated.units.contains(objective.name) && !stated.units.empty()) objective.name = stated.units.begin()->first;
    larger = false;
  }
  if (objective.name.empty()) objective.name = only_name(stated, std::string(file));
  const auto unit = stated.units.find(objective.name);
  if (unit == stated.units.end()) {
    std::vector<std::string> names;
    for (const auto& [name, of] : stated.units) names.push_back(brief_name(name));
    throw BadField(
        "objective",
        "no row of " + std::string(file) + " has a figure " + "'" + brief_name(objective.name) + "'" +
            (names.empty() ? ", or any other" : "; " + unknown_name("figure", brief_name(objective.name), names)));
  }
  objective.unit = unit->second;
  const bool is_time = microseconds_in(objective.unit).has_value();
  if (!larger) larger = known_direction(objective.name, stated);
  if (!larger && is_time) larger = false;
  if (!larger) {
    const std::string name = brief_name(objective.name);
    throw BadField("objective", std::string(file) + " is searched for " + "'" + brief_name(objective.name) + "'" +
                                    ", and nothing says which is better: " + name + ":max takes the largest, " + name +
                                    ":min the smallest");
  }
  objective.larger_is_better = *larger;
  // The longest time is a figure as any other: what a trial's time means stays the same.
  if (is_time && !*larger) return objective;
  objective.figures = std::make_shared<const std::vector<double>>();
  return objective;
}

void take_figure(FigureRow& taken, double figure, std::vector<double> samples_us, const Objective& objective,
                 const std::string& row) {
  const auto fail = [&](const std::string& message) {
    taken.row.trial.outcome = Outcome::launch_failed;
    taken.row.trial.message = message;
  };
  taken.figure = figure;
  if (!objective.is_time()) {
    if (!std::isfinite(figure)) fail("recorded without a finite " + brief_name(objective.name));
    return;
  }
  if (figure < 0 && std::isfinite(figure))
    throw BadInput(row + " has a time of " + format("%g", figure * 1e-3) + " ms");
  if (!(figure > 0 && figure < kNoTime_us)) return fail("recorded without a time");
  if (!is_plausible_time(figure)) return fail(format("recorded with a time of %g ms", figure * 1e-3));
  for (const double sample : samples_us) {
    if (!is_plausible_time(sample)) return fail(format("recorded with a sample of %g ms", sample * 1e-3));
  }
  taken.row.trial.samples_us.assign(samples_us.begin(), samples_us.end());
}

SortedRows rows_by_objective(std::vector<Parameter> parameters, std::vector<FigureRow> found, Objective& objective) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const FigureRow& one : found) {
    if (one.row.trial.outcome != Outcome::ok) continue;
    least = std::min(least, one.figure);
    most = std::max(most, one.figure);
  }
  const double best = objective.larger_is_better ? most : least, worst = objective.larger_is_better ? least : most;
  const FigureCost cost(best, worst);
  std::vector<RecordedRow> rows;
  rows.reserve(found.size());
  for (FigureRow& one : found) {
    RecordedTrial& trial = one.row.trial;
    if (trial.outcome == Outcome::ok)
      trial.time_us = static_cast<float>(objective.is_time() ? one.figure : cost(one.figure));
    trial.figure = one.figure;
    rows.push_back(std::move(one.row));
  }
  SortedRows sorted = sort_rows(std::move(parameters), std::move(rows));
  if (objective.is_time()) return sorted;
  objective.figures = std::make_shared<const std::vector<double>>(gathered(sorted.trials, &RecordedTrial::figure));
  objective.best = best;
  return sorted;
}

}  // namespace moetune
