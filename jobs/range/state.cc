#include "jobs/range/state.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace moetune {
namespace {

using StateJson = nlohmann::ordered_json;

constexpr std::int64_t kStateVersion = 2;

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

StateJson to_state_json(const MeasuredCell& cell) {
  StateJson measured = StateJson::object();
  for (const auto& [name, one] : cell.cubins) measured[name] = to_state_json(one);
  return {{"problem", cell.problem},
          {"searched", cell.searched},
          {"contended", cell.contended},
          {"unreachable", cell.unreachable},
          {"cubins", std::move(measured)},
          {"default", cell.measured_default ? to_state_json(*cell.measured_default) : StateJson(nullptr)},
          {"default_cubin", cell.default_cubin},
          {"judged", cell.judged}};
}

MeasuredCell cell_from(const nlohmann::json& json) {
  MeasuredCell cell{.problem = json.at("problem").get<std::string>(),
                    .searched = json.at("searched").get<bool>(),
                    .contended = json.at("contended").get<bool>(),
                    .unreachable = json.at("unreachable").get<std::string>()};
  for (const auto& [name, measured] : json.at("cubins").items()) cell.cubins[name] = measured_from(measured);
  if (!json.at("default").is_null()) cell.measured_default = measured_from(json.at("default"));
  json.at("default_cubin").get_to(cell.default_cubin);
  cell.judged = json.value("judged", "");  // earlier versions did not say
  return cell;
}

UnseenShape shape_from(const nlohmann::json& json) {
  UnseenShape shape{.problem = json.at("problem").get<std::string>(),
                    .pick = json.at("pick").get<std::string>(),
                    .best = json.value("best", ""),
                    .pick_us = json.at("pick_us").get<double>(),
                    .best_us = json.at("best_us").get<double>(),
                    .default_us = json.at("default_us").get<double>(),
                    .failed = json.at("failed").get<bool>()};
  if (shape.failed) return shape;
  sound_time(shape.pick_us);
  sound_time(shape.best_us);
  return shape;
}

}  // namespace

std::string RangeState::text() const {
  StateJson list = StateJson::array(), seen = StateJson::array();
  for (const MeasuredCell& cell : cells) list.push_back(to_state_json(cell));
  for (const UnseenShape& shape : shapes) {
    seen.push_back({{"problem", shape.problem},
                    {"pick", shape.pick},
                    {"best", shape.best},
                    {"pick_us", shape.pick_us},
                    {"best_us", shape.best_us},
                    {"default_us", shape.default_us},
                    {"failed", shape.failed}});
  }
  return StateJson{{"moetune_range_progress", kStateVersion},
                   {"ranges", ranges},
                   {"cubins", cubins},
                   {"idle", idle},
                   {"filled", filled},
                   {"taken_over", taken_over},
                   {"cells", std::move(list)},
                   {"shapes", std::move(seen)},
                   {"withdrawn", withdrawn}}
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
    document.at("idle").get_to(state.idle);
    document.at("filled").get_to(state.filled);
    state.taken_over = document.at("taken_over");
    for (const nlohmann::json& one : document.at("cells")) state.cells.push_back(cell_from(one));
    for (const nlohmann::json& one : document.at("shapes")) state.shapes.push_back(shape_from(one));
    state.withdrawn = document.value("withdrawn", std::vector<std::string>{});
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw BadInput("the progress of a range search is none of moetune's: " + json_error_text(error));
  }
}

}  // namespace moetune
