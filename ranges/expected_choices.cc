#include "ranges/expected_choices.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace moetune {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(std::string_view what, const char* why) {
  throw BadInput(std::string(what) + " expects choices " + why);
}

Json runs_of(const std::vector<std::uint32_t>& choices) {
  Json runs = Json::array();
  for (std::size_t i = 0; i < choices.size();) {
    std::size_t end = i;
    while (end < choices.size() && choices[end] == choices[i]) ++end;
    const bool is_none = choices[i] == ExpectedGrid::kNone;
    runs.push_back({is_none ? std::int64_t{-1} : std::int64_t{choices[i]}, end - i});
    i = end;
  }
  return runs;
}

std::size_t parse_axes(const nlohmann::json& axes, std::string_view what, ExpectedGrid& grid) {
  if (!axes.is_array() || axes.empty() || axes.size() > ExpectedGrid::kMostAxes)
    refuse(what, "on a grid without one to three axes");
  std::size_t points = 1;
  for (const nlohmann::json& axis : axes) {
    if (!axis.is_array() || axis.empty() || axis.size() > ExpectedGrid::kMostCoordinates)
      refuse(what, "on an axis without coordinates, or with too many");
    std::vector<std::int64_t>& coordinates = grid.axes.emplace_back();
    for (const nlohmann::json& one : axis) {
      const auto coordinate = one.get<std::int64_t>();
      if (coordinate < 1 || (!coordinates.empty() && coordinate <= coordinates.back()))
        refuse(what, "on an axis that does not ascend from 1 on");
      coordinates.push_back(coordinate);
    }
    points *= coordinates.size();
  }
  if (points > ExpectedGrid::kMostPoints) refuse(what, "for too many points");
  return points;
}

void parse_runs(const nlohmann::json& runs, std::size_t points, std::size_t configs, std::string_view what,
                ExpectedGrid& grid) {
  if (!runs.is_array()) refuse(what, "without a list of them");
  for (const nlohmann::json& run : runs) {
    const auto choice = run.at(0).get<std::int64_t>();
    const auto count = run.at(1).get<std::size_t>();
    if (choice < -1 || choice >= static_cast<std::int64_t>(configs))
      refuse(what, "that are no configurations");
    if (count == 0 || count > points - grid.choices.size()) refuse(what, "for more points than it has");
    grid.choices.insert(grid.choices.end(), count,
                        choice < 0 ? ExpectedGrid::kNone : static_cast<std::uint32_t>(choice));
  }
  if (grid.choices.size() != points) refuse(what, "for fewer points than it has");
}

}  // namespace

std::size_t ExpectedChoices::points() const {
  std::size_t count = 0;
  for (const ExpectedGrid& grid : grids)
    count +=
        grid.choices.size() - static_cast<std::size_t>(std::ranges::count(grid.choices, ExpectedGrid::kNone));
  return count;
}

void ExpectedChoices::keep(const std::function<bool(const std::string&)>& is_kept) {
  std::map<std::uint32_t, std::uint32_t> places;
  std::vector<std::string> used;
  const auto place_of = [&](std::uint32_t choice) {
    const auto [known, is_new] = places.try_emplace(choice, ExpectedGrid::kNone);
    if (is_new && is_kept(configs[choice])) {
      known->second = static_cast<std::uint32_t>(used.size());
      used.push_back(configs[choice]);
    }
    return known->second;
  };
  for (ExpectedGrid& grid : grids) {
    for (std::uint32_t& choice : grid.choices) {
      if (choice != ExpectedGrid::kNone) choice = place_of(choice);
    }
  }
  configs = std::move(used);
}

Json expected_json(const ExpectedChoices& expected) {
  Json grids = Json::array();
  for (const ExpectedGrid& grid : expected.grids)
    grids.push_back({{"uneven", grid.uneven}, {"axes", grid.axes}, {"runs", runs_of(grid.choices)}});
  return {{"configs", expected.configs}, {"grids", std::move(grids)}};
}

ExpectedChoices parse_expected(const nlohmann::json& document, std::string_view what) {
  ExpectedChoices expected;
  const nlohmann::json& configs = document.at("configs");
  if (!configs.is_array() || configs.size() > ExpectedChoices::kMostConfigs)
    refuse(what, "of too many configurations");
  configs.get_to(expected.configs);
  const nlohmann::json& grids = document.at("grids");
  if (!grids.is_array() || grids.size() > 2) refuse(what, "on more grids than kinds of work");
  for (const nlohmann::json& one : grids) {
    ExpectedGrid grid{.uneven = one.at("uneven").get<bool>(), .axes = {}, .choices = {}};
    if (std::ranges::find(expected.grids, grid.uneven, &ExpectedGrid::uneven) != expected.grids.end())
      refuse(what, "on two grids for one kind of work");
    const std::size_t points = parse_axes(one.at("axes"), what, grid);
    parse_runs(one.at("runs"), points, expected.configs.size(), what, grid);
    expected.grids.push_back(std::move(grid));
  }
  return expected;
}

}  // namespace moetune
