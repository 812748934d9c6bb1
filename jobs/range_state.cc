#include "jobs/range_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace moetune {
namespace {

using StateJson = nlohmann::ordered_json;

constexpr std::int64_t kStateVersion = 1;
constexpr double kUnmeasured = std::numeric_limits<double>::infinity();

StateJson to_state_json(const MeasuredConfig& measured) {
  if (measured.config.empty()) return nullptr;
  return {{"config", measured.config}, {"time_us", measured.time_us}};
}

double sound_time(double time) {
  if (std::isfinite(time) && time > 0) return time;
  throw BadInput("the progress of a range search holds " + std::to_string(time) + " us, which is no time");
}

MeasuredConfig measured_from(const nlohmann::json& json) {
  if (json.is_null()) return {};
  return {json.at("config").get<std::string>(), sound_time(json.at("time_us").get<double>())};
}

RangeCellState cell_from(const nlohmann::json& json) {
  RangeCellState cell{json.at("problem").get<std::string>(), json.at("searched").get<bool>(),
                      json.at("contended").get<bool>()};
  for (const auto& [name, measured] : json.at("cubins").items()) cell.cubins[name] = measured_from(measured);
  if (!json.at("default").is_null()) cell.fallback = measured_from(json.at("default"));
  return cell;
}

CellTimes times_of(const RangeState& state, const RangeCellState& cell) {
  CellTimes times{.default_us = cell.fallback ? cell.fallback->time_us : kUnmeasured};
  for (const std::string& name : state.cubins) {
    const auto found = cell.cubins.find(name);
    const bool runs = found != cell.cubins.end() && !found->second.config.empty();
    times.cubins.push_back(runs ? found->second.time_us : kUnmeasured);
  }
  for (const auto& [name, measured] : cell.cubins) {
    if (!measured.config.empty()) times.others_us = std::min(times.others_us, measured.time_us);
  }
  return times;
}

}  // namespace

std::string RangeState::text() const {
  StateJson list = StateJson::array(), seen = StateJson::array();
  for (const RangeCellState& cell : cells) {
    StateJson measured = StateJson::object();
    for (const auto& [name, one] : cell.cubins) measured[name] = to_state_json(one);
    list.push_back({{"problem", cell.problem},
                    {"searched", cell.searched},
                    {"contended", cell.contended},
                    {"cubins", std::move(measured)},
                    {"default", cell.fallback ? to_state_json(*cell.fallback) : StateJson(nullptr)}});
  }
  for (const UnseenShape& shape : shapes) {
    seen.push_back({{"problem", shape.problem},
                    {"pick", shape.pick},
                    {"pick_us", shape.pick_us},
                    {"best_us", shape.best_us},
                    {"default_us", shape.default_us}});
  }
  return StateJson{{"moetune_range_progress", kStateVersion},
                   {"ranges", ranges},
                   {"cubins", cubins},
                   {"cells", std::move(list)},
                   {"shapes", std::move(seen)}}
      .dump();
}

RangeState RangeState::parse(std::string_view text) {
  const nlohmann::json document = parse_json(text, "the progress of a range search");
  try {
    if (document.at("moetune_range_progress").get<std::int64_t>() != kStateVersion)
      throw BadInput("the progress of a range search is of another moetune");
    RangeState state;
    document.at("ranges").get_to(state.ranges);
    document.at("cubins").get_to(state.cubins);
    for (const nlohmann::json& one : document.at("cells")) state.cells.push_back(cell_from(one));
    for (const nlohmann::json& one : document.at("shapes")) {
      state.shapes.push_back({one.at("problem").get<std::string>(), one.at("pick").get<std::string>(),
                              sound_time(one.at("pick_us").get<double>()),
                              sound_time(one.at("best_us").get<double>()),
                              one.at("default_us").get<double>()});
    }
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw BadInput("the progress of a range search is none of moetune's: " + json_error_text(error));
  }
}

RangeSolution solve(const RangeState& state, double bound, std::size_t variants) {
  std::vector<const RangeCellState*> cells;
  std::vector<CellTimes> times;
  for (const RangeCellState& cell : state.cells) {
    if (!cell.is_measured()) continue;
    CellTimes measured = times_of(state, cell);
    if (!std::isfinite(measured.best_us())) continue;
    cells.push_back(&cell);
    times.push_back(std::move(measured));
  }
  RangeSolution solution{.cover = choose_cubins(times, bound, variants)};
  RangeTable& table = solution.table;
  table.ranges = state.ranges;
  table.bound = bound;
  table.kept = solution.cover.within_bound;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const RangeCellState& cell = *cells[i];
    const std::optional<std::size_t> choice = best_choice(times[i], solution.cover.cubins);
    if (!choice && !cell.fallback) continue;  // nothing of the set runs here: the nearest cell serves
    const MeasuredConfig& pick = choice ? cell.cubins.at(state.cubins[*choice]) : *cell.fallback;
    table.contended = table.contended || cell.contended;
    table.cells.push_back({cell.problem, pick.config, pick.time_us,
                           cell.fallback ? cell.fallback->time_us : 0, times[i].best_us()});
  }
  std::vector<double> regrets, to_default;
  for (const UnseenShape& shape : state.shapes) {
    regrets.push_back(shape.pick_us / shape.best_us - 1);
    if (shape.default_us > 0) to_default.push_back(shape.pick_us / shape.default_us - 1);
  }
  table.certificate = RangeCertificate::of(std::move(regrets), to_default);
  return solution;
}

}  // namespace moetune
