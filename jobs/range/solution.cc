#include "jobs/range/solution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "ranges/set_cover.h"
#include "tuner/finals.h"

namespace moetune {
namespace {

static_assert(RangeCell::kTie == kTie);
constexpr double kUnmeasured = std::numeric_limits<double>::infinity();

// The cell without the withdrawn configurations, because they failed at an unseen shape.
MeasuredCell without(MeasuredCell cell, const std::vector<std::string>& withdrawn) {
  for (const std::string& config : withdrawn) {
    for (auto& [name, measured] : cell.cubins) {
      if (measured.config == config) measured = {};
    }
    if (cell.measured_default && cell.measured_default->config == config) cell.measured_default.reset();
  }
  return cell;
}

CellTimes times_of(const MeasuredCell& cell, const std::vector<std::string>& cubins) {
  CellTimes times{.default_us = cell.measured_default ? cell.measured_default->time_us : kUnmeasured};
  for (const std::string& name : cubins) {
    const auto found = cell.cubins.find(name);
    const bool runs = found != cell.cubins.end() && !found->second.config.empty();
    times.cubins.push_back(runs ? found->second.time_us : kUnmeasured);
  }
  for (const auto& [name, measured] : cell.cubins) {
    if (!measured.config.empty()) times.others_us = std::min(times.others_us, measured.time_us);
  }
  return times;
}

RangeCertificate certificate_of(const std::vector<UnseenShape>& shapes) {
  std::vector<double> regrets, to_default;
  for (const UnseenShape& shape : shapes) {
    if (shape.failed) continue;
    regrets.push_back(shape.pick_us / shape.best_us - 1);
    if (shape.default_us > 0) to_default.push_back(shape.pick_us / shape.default_us - 1);
  }
  RangeCertificate seen = RangeCertificate::of(std::move(regrets), to_default);
  seen.failed = static_cast<std::size_t>(std::ranges::count_if(shapes, &UnseenShape::failed));
  return seen;
}

}  // namespace

std::vector<std::string> choosable_cubins(const RangeState& state) {
  std::vector<std::string> cubins = state.cubins;
  std::set<std::string> defaults;
  for (const MeasuredCell& cell : state.cells) {
    if (cell.measured_default) defaults.insert(cell.default_cubin);
  }
  for (const std::string& name : defaults) {
    if (std::find(cubins.begin(), cubins.end(), name) == cubins.end()) cubins.push_back(name);
  }
  return cubins;
}

RangeSolution solve(const RangeState& state, double bound, std::size_t variants) {
  const std::vector<std::string> choosable = choosable_cubins(state);
  const bool any_quiet =
      std::ranges::any_of(state.cells, [](const MeasuredCell& cell) { return cell.is_measured() && !cell.contended; });
  std::vector<MeasuredCell> cells;
  std::vector<CellTimes> times;
  for (const MeasuredCell& one : state.cells) {
    if (!one.is_measured() || (one.contended && any_quiet)) continue;
    MeasuredCell cell = without(one, state.withdrawn);
    CellTimes measured = times_of(cell, choosable);
    if (!std::isfinite(measured.best_us())) continue;
    cells.push_back(std::move(cell));
    times.push_back(std::move(measured));
  }
  const Cover cover = choose_cubins(times, bound, variants);
  RangeSolution solution;
  for (const std::size_t place : cover.cubins) solution.cubins.push_back(choosable[place]);
  RangeTable& table = solution.table;
  table.ranges = state.ranges;
  table.bound = bound;
  table.kept = cover.within_bound;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const MeasuredCell& cell = cells[i];
    const std::optional<std::size_t> choice = best_choice(times[i], cover.cubins);
    if (!choice && !cell.measured_default) continue;
    const MeasuredConfig pick = choice ? cell.cubins.at(choosable[*choice]) : *cell.measured_default;
    const MeasuredConfig met = cell.measured_default.value_or(MeasuredConfig{});
    if (!choice) ++solution.left_to_default;
    table.contended = table.contended || cell.contended;
    table.cells.push_back({cell.problem, pick.config, pick.time_us, met.time_us, times[i].best_us(), met.config});
  }
  table.certificate = certificate_of(state.shapes);
  return solution;
}

}  // namespace moetune
