// The coordinates of a range's grids, and which problem lies where.
#include <algorithm>
#include <ranges>

#include "jobs/range_plan.h"

namespace moetune {

// Recorded shapes keep their lengths: none is moved into a tile.
std::vector<std::int64_t> RangePlan::coordinates_of(std::size_t axis, double octaves) {
  const DimensionRange& range = ranges_[axis];
  std::vector<std::int64_t> coordinates = axis_coordinates(range.first, range.last, octaves);
  const std::vector<std::string> lengths = kernel_.free_lengths();
  const bool is_length = std::ranges::find(lengths, range.name) != lengths.end();
  return is_length && !leaves_shapes() ? merge_equal_places(axis, within_tiles(std::move(coordinates)))
                                       : coordinates;
}

// Lengths that are one place in the table are one coordinate.
std::vector<std::int64_t> RangePlan::merge_equal_places(std::size_t axis,
                                                        const std::vector<std::int64_t>& coordinates) {
  GridPoint values;
  for (const DimensionRange& range : ranges_) values.push_back(range.first);
  const auto position_at = [&](std::int64_t coordinate) {
    values[axis] = coordinate;
    const std::optional<Problem> problem = problem_of_kind(values, false);
    return problem ? cell_of(*problem).position : GridPoint{coordinate};
  };
  std::vector<std::int64_t> apart;
  for (std::size_t i = 0, end; i < coordinates.size(); i = end) {
    const GridPoint position = position_at(coordinates[i]);
    for (end = i + 1; end < coordinates.size() && position_at(coordinates[end]) == position; ++end) {
    }
    apart.push_back(measured_coordinate(axis, position,
                                        std::vector(coordinates.begin() + static_cast<std::ptrdiff_t>(i),
                                                    coordinates.begin() + static_cast<std::ptrdiff_t>(end))));
  }
  return apart;
}

// The one at which a place is measured that several coordinates share. The shortest that does not begin the range: its
// ends lie on the edges of tiles, as few lengths of a server do, and of longer ones no batch counts as uneven.
std::int64_t RangePlan::measured_coordinate(std::size_t axis, const GridPoint& position,
                                            const std::vector<std::int64_t>& coordinates) {
  const auto known = std::ranges::find_if(
      one_place_, [&](const OnePlace& one) { return one.axis == axis && one.position == position; });
  if (known != one_place_.end()) return known->coordinate;
  if (coordinates.front() == coordinates.back()) return coordinates.front();
  const std::int64_t coordinate = coordinates[coordinates.front() == ranges_[axis].first ? 1 : 0];
  one_place_.push_back({axis, position, coordinate});
  return coordinate;
}

std::optional<GridPoint> RangePlan::values_at(const GridPoint& position) const {
  TablePoint point;
  for (const std::int64_t coordinate : position) point.position.push_back(coordinate);
  const Extents extents = interface_->extents_at(point, base_);
  GridPoint values;
  for (const std::size_t place : places_) {
    if (place >= extents.size()) return std::nullopt;
    values.push_back(extents[place]);
  }
  for (const OnePlace& one : one_place_) {
    if (std::ranges::equal(one.position | std::views::drop(1), position | std::views::drop(1)))
      values[one.axis] = one.coordinate;
  }
  return values;
}

std::optional<Problem> RangePlan::problem_of_position(const GridPoint& position, bool uneven) const {
  const std::optional<GridPoint> values = values_at(position);
  return values ? problem_for(*values, uneven) : std::nullopt;
}

// Uneven work may lie anywhere, by its total; even work where its extents say.
std::optional<std::int64_t> RangePlan::coordinate_between(std::int64_t low, std::int64_t high,
                                                          std::size_t axis, const GridPoint& like,
                                                          bool uneven) const {
  GridPoint position = like;
  position[axis] = geometric_middle(low, high);
  if (!uneven || axis > 0) {
    const std::optional<Problem> even = problem_of_position(position, false);
    if (!even) return std::nullopt;
    position[axis] = cell_of(*even).position[axis];
  }
  return position[axis] > low && position[axis] < high ? std::optional(position[axis]) : std::nullopt;
}

}  // namespace moetune
