#include "search/legal_space.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace moetune {
namespace {

void check_rows(const std::vector<Parameter>& parameters, const std::vector<Position>& rows) {
  const std::size_t width = parameters.size();
  if (width == 0 || rows.size() % width != 0)
    throw BadInput("a legal space needs whole rows of at least one parameter");
  for (std::size_t i = 0; i < rows.size(); i += width) {
    const Position* row = rows.data() + i;
    for (std::size_t p = 0; p < width; ++p) {
      if (row[p] >= parameters[p].values.size()) {
        throw BadInput("a row of a legal space lies outside the domain of '" + parameters[p].name + "'");
      }
    }
    if (i > 0 && !std::lexicographical_compare(row - width, row, row, row + width)) {
      throw BadInput("the rows of a legal space must be sorted and differ");
    }
  }
}

std::vector<Position> positions_by_value(const std::vector<Value>& values) {
  std::vector<Position> positions(values.size());
  std::iota(positions.begin(), positions.end(), Position{0});
  std::ranges::sort(positions, [&](Position a, Position b) { return values[a].number < values[b].number; });
  return positions;
}

}  // namespace

LegalSpace::LegalSpace(std::vector<Parameter> parameters, std::vector<Position> rows)
    : parameters_(std::move(parameters)), rows_(std::move(rows)) {
  check_rows(parameters_, rows_);
  count_ = rows_.size() / parameters_.size();
  for (const Parameter& parameter : parameters_) ascending_.push_back(positions_by_value(parameter.values));
}

double LegalSpace::cartesian_size() const {
  double size = 1;
  for (const Parameter& parameter : parameters_) size *= static_cast<double>(parameter.values.size());
  return size;
}

std::span<const Position> LegalSpace::point(ConfigId id) const {
  return {rows_.data() + std::size_t{id} * parameters_.size(), parameters_.size()};
}

Config LegalSpace::config(ConfigId id) const {
  Config config;
  const std::span<const Position> row = point(id);
  for (std::size_t p = 0; p < row.size(); ++p) config.append(parameters_[p].name, parameters_[p].values[row[p]]);
  return config;
}

std::optional<ConfigId> LegalSpace::find(std::span<const Position> wanted) const {
  if (wanted.size() != parameters_.size()) return std::nullopt;
  std::size_t low = 0;
  std::size_t high = count_;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    const std::span<const Position> row = point(static_cast<ConfigId>(middle));
    const auto order = std::lexicographical_compare_three_way(row.begin(), row.end(), wanted.begin(), wanted.end());
    if (order == 0) return static_cast<ConfigId>(middle);
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return std::nullopt;
}

std::optional<ConfigId> LegalSpace::find(const Config& config) const {
  if (config.size() != parameters_.size()) return std::nullopt;
  std::vector<Position> wanted;
  for (const Parameter& parameter : parameters_) {
    const Value* value = config.find(parameter.name);
    if (value == nullptr) return std::nullopt;
    const auto it = std::find_if(parameter.values.begin(), parameter.values.end(), [&](const Value& candidate) {
      return candidate.name == value->name && (candidate.is_named() || candidate.number == value->number);
    });
    if (it == parameter.values.end()) return std::nullopt;
    wanted.push_back(static_cast<Position>(it - parameter.values.begin()));
  }
  return find(wanted);
}

std::optional<ConfigId> LegalSpace::find_text(std::string_view text) const {
  const std::optional<std::vector<Position>> point = point_of(text);
  return point ? find(*point) : std::nullopt;
}

std::optional<std::vector<Position>> LegalSpace::point_of(std::string_view text) const {
  std::vector<Position> point;
  for (const auto& [name, value_text] : split_assignment(text, "a stored configuration")) {
    const std::size_t p = point.size();
    if (p == parameters_.size() || parameters_[p].name != name) return std::nullopt;
    const auto& values = parameters_[p].values;
    const auto value = std::ranges::find_if(values, [&](const Value& v) { return v.text() == value_text; });
    if (value == values.end()) return std::nullopt;
    point.push_back(static_cast<Position>(value - values.begin()));
  }
  return point.size() == parameters_.size() ? std::optional(point) : std::nullopt;
}

ConfigId LegalSpace::nearest(std::span<const Position> wanted, Random& random) const {
  ConfigId found = 0;
  std::size_t least = wanted.size() + 1;
  std::uint64_t equals = 0;
  for (ConfigId id = 0; id < count_; ++id) {
    const std::span<const Position> row = point(id);
    std::size_t apart = 0;
    for (std::size_t p = 0; p < row.size() && apart <= least; ++p) apart += row[p] != wanted[p];
    if (apart > least) continue;
    equals = apart < least ? 1 : equals + 1;
    least = apart;
    if (random.below(equals) == 0) found = id;
  }
  return found;
}

std::vector<ConfigId> LegalSpace::neighbours(ConfigId id) const {
  std::vector<ConfigId> found;
  const std::span<const Position> here = point(id);
  std::vector<Position> trial(here.begin(), here.end());
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    for (const Position position : ascending_[p]) {
      if (position == here[p]) continue;
      trial[p] = position;
      if (const std::optional<ConfigId> neighbour = find(trial)) found.push_back(*neighbour);
    }
    trial[p] = here[p];
  }
  return found;
}

bool LegalSpace::are_neighbours(ConfigId a, ConfigId b) const {
  const std::span<const Position> left = point(a), right = point(b);
  std::size_t apart = 0;
  for (std::size_t p = 0; p < left.size() && apart <= 1; ++p) apart += left[p] != right[p];
  return apart == 1;
}

}  // namespace moetune
