#include "jobs/range/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/suggest.h"
#include "ranges/range_table.h"
#include "search/random.h"

namespace moetune {
namespace {

// The share of device memory for a problem's buffers. References and rotating copies need the rest.
constexpr double kMemoryShare = 0.6;
// The finer grid's steps to one of the coarse grid's. The kernel's first free dimension counts what blocks are made of,
// and how they fill the SMs changes with every few of them; odd steps avoid that all are powers of two.
constexpr double kCountedSteps = 5, kOtherSteps = 2;
constexpr double kOnlySteps = 15;  // of a range of one dimension
constexpr std::size_t kMostCells = 400;
// Ragged work is looked for among problems of up to this many times the count of the even work whose place it takes,
// and is good enough within this distance, a tenth of an octave.
constexpr std::int64_t kMostTimes = 4;
constexpr double kSamePlace = 0.01;
constexpr int kDrawsPerShape = 50;     // of random problems
constexpr std::size_t kMostNamed = 6;  // recorded shapes, in a message

std::vector<DimensionRange> checked_ranges(const Kernel& kernel, const std::string& over) {
  try {
    std::vector<DimensionRange> ranges = parse_ranges(over);
    const std::vector<std::string>& names = kernel.free_dimensions();
    for (const DimensionRange& range : ranges) {
      if (std::find(names.begin(), names.end(), range.name) == names.end())
        throw BadInput(names.empty() ? kernel.name() + " has no free dimension"
                                     : unknown_name("free dimension of " + kernel.name(), range.name, names));
      check_range(kernel.name(), kernel.schema(), range.name, range.first, range.last);
    }
    return ranges;
  } catch (const BadInput& error) {
    throw BadField("over", error.what());
  }
}

}  // namespace

RangePlan::RangePlan(const Session& session, const Problem& base, const std::string& over)
    : session_(session),
      kernel_(*session.kernel()),
      specialization_(kernel_.specialization(base)),
      base_(kernel_.extents_of(base)),
      ranges_(checked_ranges(kernel_, over)),
      interface_(kernel_.family_interface(base)) {
  const std::vector<std::string>& names = kernel_.free_dimensions();
  std::vector<std::vector<std::int64_t>> axes;
  for (const DimensionRange& range : ranges_) {
    places_.push_back(static_cast<std::size_t>(std::find(names.begin(), names.end(), range.name) - names.begin()));
    if (places_.back() == 0) counted_ = places_.size() - 1;
  }
  // A fine grid says first at which of its coordinates a place is measured.
  for (std::size_t i = 0; i < ranges_.size(); ++i) coordinates_of(i, kOctaves / kOnlySteps);
  while (axes.size() < ranges_.size()) axes.push_back(coordinates_of(axes.size(), kOctaves));
  for (const Problem& problem : session.recorded_problems()) {
    if (is_within(problem)) recorded_.push_back(problem);
  }
  const std::vector<GridPoint> points = grid_points(axes);
  for (const std::size_t i : spread_order(points)) {
    add(points[i], false);
    if (interface_->has_ragged()) add(points[i], true);
  }
  note_impossible_ends(points);
  if (cells_.empty()) throw BadField("over", why_empty());
  coarse_ = cells_.size();
}

// The kernel refuses single points of a grid for what two dimensions make together. If it refuses all points at an end
// of a range, that end is not served.
void RangePlan::note_impossible_ends(const std::vector<GridPoint>& points) {
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    for (const std::int64_t end : std::set{ranges_[i].first, ranges_[i].last}) {
      std::string why;
      const auto is_possible = [&](const GridPoint& point) {
        return point[i] == end && problem_of_kind(point, false, &why);
      };
      const auto is_end = [&](const GridPoint& point) { return point[i] == end; };
      if (std::ranges::none_of(points, is_end) || std::ranges::any_of(points, is_possible)) continue;
      left_out_.push_back("every problem of " + ranges_[i].name + "=" + std::to_string(end) + ": " + why);
    }
  }
}

GridPoint RangePlan::values_of(const Problem& problem) const {
  const Extents extents = kernel_.extents_of(problem);
  GridPoint values;
  for (const std::size_t place : places_) values.push_back(extents[place]);
  return values;
}

bool RangePlan::is_within(const Problem& problem) const {
  const GridPoint values = values_of(problem);
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    if (values[i] < ranges_[i].first || values[i] > ranges_[i].last) return false;
  }
  return true;
}

bool RangePlan::has_fixed_extents(const Problem& problem) const {
  Extents extents = kernel_.extents_of(problem);
  for (const std::size_t place : places_) extents[place] = base_[place];
  return extents == base_;
}

bool RangePlan::is_recorded(const Problem& problem) const {
  return std::ranges::find(recorded_, problem) != recorded_.end();
}

// Few recorded shapes are named each, of more the least and the largest of each range.
std::string RangePlan::recorded_text() const {
  std::set<GridPoint> shapes;
  for (const Problem& problem : session_.recorded_problems()) shapes.insert(values_of(problem));
  std::string text;
  if (shapes.size() <= kMostNamed) {
    for (const GridPoint& shape : shapes) {
      for (std::size_t i = 0; i < shape.size(); ++i)
        text += (i > 0 ? "," : text.empty() ? "" : "; ") + ranges_[i].name + "=" + std::to_string(shape[i]);
    }
    return text;
  }
  std::vector<DimensionRange> hull = ranges_;
  for (std::size_t i = 0; i < hull.size(); ++i) {
    const auto [least, most] = std::ranges::minmax(shapes, {}, [i](const GridPoint& shape) { return shape[i]; });
    hull[i].first = least[i];
    hull[i].last = most[i];
  }
  return "shapes within " + ranges_text(hull);
}

std::string RangePlan::why_empty() const {
  const std::string ranges = ranges_text(ranges_), device = session_.info().key.name;
  if (session_.recording() != nullptr && recorded_.empty())
    return "no problem of " + ranges + " was recorded on " + device + "; recorded are " + recorded_text();
  return "no problem of " + ranges + " can be measured on " + device +
         (left_out_.empty() ? "" : ": " + left_out_.front());
}

void RangePlan::fill() {
  std::vector<std::vector<std::int64_t>> axes;
  std::size_t wide = 0;  // ranges of more than one place
  for (std::size_t i = 0; i < ranges_.size(); ++i) wide += coordinates_of(i, kOctaves).size() > 1 ? 1 : 0;
  const bool is_only = wide == 1 && !leaves_shapes();
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const double steps = is_only ? kOnlySteps : places_[i] == 0 ? kCountedSteps : kOtherSteps;
    axes.push_back(coordinates_of(i, kOctaves / steps));
  }
  const std::vector<GridPoint> points = grid_points(axes);
  const std::size_t most = std::max(kMostCells, coarse_);
  visit_spread(points, [&](std::size_t i) {
    for (const bool ragged : {false, true}) {
      if (cells_.size() >= most || (ragged && !interface_->has_ragged())) continue;
      // Recorded shapes that are no points of the grid are left for the certificate.
      const std::optional<Problem> problem = problem_for(points[i], ragged);
      if (session_.recording() == nullptr || (problem && is_recorded(*problem))) add(points[i], ragged);
    }
    return cells_.size() < most;
  });
}

std::optional<Problem> RangePlan::problem_of_kind(const GridPoint& values, bool ragged, std::string* why_none) const {
  Extents extents = base_;
  for (std::size_t i = 0; i < values.size(); ++i) extents[places_[i]] = values[i];
  try {
    Problem problem = kernel_.problem_of(specialization_, extents);
    if (ragged) interface_->make_ragged(problem);
    kernel_.check(problem);
    if (interface_->table_point_of(problem).ragged != ragged) return std::nullopt;
    return problem;
  } catch (const BadInput& error) {
    if (why_none != nullptr) *why_none = error.what();
    return std::nullopt;
  }
}

// A ragged batch holds at most half the tokens of an even one, so look for a batch with about twice as many sequences.
std::optional<Problem> RangePlan::problem_for(const GridPoint& values, bool ragged) const {
  if (!ragged) return problem_of_kind(values, false);
  const std::optional<Problem> even = counted_ ? problem_of_kind(values, false) : std::nullopt;
  if (!even) return problem_of_kind(values, true);
  const GridPoint wanted = cell_of(*even).position;
  const std::int64_t least = values[*counted_];
  const std::int64_t most = std::min(kMostTimes * least, std::max(least, ranges_[*counted_].last));
  const std::int64_t step = std::max<std::int64_t>(1, least / 16);
  GridPoint larger = values;
  std::optional<Problem> nearest;
  double distance = std::numeric_limits<double>::infinity();
  for (std::int64_t& count = larger[*counted_]; count <= most && distance > kSamePlace; count += step) {
    const std::optional<Problem> problem = problem_of_kind(larger, true);
    const double here = problem ? grid_distance(cell_of(*problem).position, wanted) : distance;
    if (!(here < distance)) continue;
    distance = here;
    nearest = problem;
  }
  return nearest;
}

bool RangePlan::fits(const Problem& problem) const {
  double bytes = 0;
  for (const Buffer& buffer : kernel_.buffers(problem, 1)) bytes += static_cast<double>(buffer.bytes());
  return bytes <= kMemoryShare * static_cast<double>(session_.info().limits.memory_bytes);
}

std::optional<Problem> RangePlan::served(const Problem& problem) const {
  if (session_.recording() == nullptr || is_recorded(problem)) return problem;
  const PlannedProblem wanted = cell_of(problem);
  std::vector<PlannedProblem> recorded;
  for (const Problem& one : recorded_) recorded.push_back(cell_of(one));
  const std::optional<std::size_t> found = nearest(wanted, recorded);
  return found && recorded[*found].ragged == wanted.ragged ? std::optional(recorded_[*found]) : std::nullopt;
}

bool RangePlan::is_planned(const Problem& problem) const {
  return std::any_of(cells_.begin(), cells_.end(), [&](const PlannedProblem& cell) { return cell.problem == problem; });
}

std::optional<Problem> RangePlan::problem_at(const GridPoint& values, bool ragged) {
  const std::optional<Problem> problem = problem_for(values, ragged);
  if (!problem) return std::nullopt;
  if (session_.recording() == nullptr && !fits(*problem)) {
    const std::string why = problem->text() + ": it needs more than 60% of the device's memory";
    if (std::ranges::find(left_out_, why) == left_out_.end()) left_out_.push_back(why);  // a point of both grids
    return std::nullopt;
  }
  return served(*problem);
}

void RangePlan::add(const GridPoint& values, bool ragged) {
  const std::optional<Problem> problem = problem_at(values, ragged);
  if (!problem) return;
  PlannedProblem cell = cell_of(*problem);
  if (!is_taken(cell)) cells_.push_back(std::move(cell));
}

bool RangePlan::is_taken(const PlannedProblem& cell) const {
  return std::ranges::any_of(cells_, [&](const PlannedProblem& other) {
    return other.position == cell.position && other.ragged == cell.ragged;
  });
}

PlannedProblem RangePlan::cell_of(const Problem& problem) const {
  const TablePoint point = interface_->table_point_of(problem);
  return {problem, GridPoint(point.position.begin(), point.position.end()), point.ragged};
}

std::optional<std::size_t> RangePlan::nearest(const PlannedProblem& to,
                                              const std::vector<PlannedProblem>& among) const {
  std::optional<std::size_t> best;
  const auto rank = [&](std::size_t i) {
    return std::pair(among[i].ragged != to.ragged, grid_distance(among[i].position, to.position));
  };
  for (std::size_t i = 0; i < among.size(); ++i) {
    if (!best || rank(i) < rank(*best)) best = i;
  }
  return best;
}

bool RangePlan::is_of_base(const std::string& text) const {
  if (session_.recording() != nullptr) return true;  // its cells are whatever was recorded
  try {
    return has_fixed_extents(kernel_.parse(text));
  } catch (const BadInput&) {  // of another version
    return false;
  }
}

void RangePlan::restore(const std::string& text) {
  if (cells_.size() >= RangeTable::kMostCells) return;
  try {
    const Problem problem = kernel_.parse(text);
    kernel_.check(problem);
    const bool serves =
        session_.recording() != nullptr ? is_recorded(problem) : has_fixed_extents(problem) && fits(problem);
    const bool is_ours = kernel_.specialization(problem).text() == specialization_.text();
    if (serves && is_ours && is_within(problem) && !is_taken(cell_of(problem))) cells_.push_back(cell_of(problem));
  } catch (const BadInput&) {  // of another version
  }
}

// Recorded shapes keep their lengths: none is moved into a tile.
std::vector<std::int64_t> RangePlan::coordinates_of(std::size_t axis, double octaves) {
  const DimensionRange& range = ranges_[axis];
  std::vector<std::int64_t> coordinates = axis_coordinates(range.first, range.last, octaves);
  const std::vector<std::string> lengths = kernel_.free_lengths();
  const bool is_length = std::ranges::find(lengths, range.name) != lengths.end();
  return is_length && !leaves_shapes() ? merge_equal_places(axis, within_tiles(std::move(coordinates))) : coordinates;
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
// ends lie on the edges of tiles, as few lengths of a server do, and of longer ones no batch counts as ragged.
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

std::vector<Problem> RangePlan::unseen(std::size_t count, std::uint64_t seed, const std::set<std::string>& keep) const {
  std::vector<Problem> shapes;
  Random random(seed ^ 0x5eed5eed5eed5eedu);
  const auto take = [&](const Problem& problem) {
    const bool is_cell = is_planned(problem) && !keep.contains(problem.text());
    if (is_cell || std::find(shapes.begin(), shapes.end(), problem) != shapes.end()) return;
    shapes.push_back(problem);
  };
  if (session_.recording() != nullptr) {
    std::vector<Problem> left = recorded_;
    random.shuffle(left);
    for (const Problem& problem : left) {
      if (shapes.size() < count) take(problem);
    }
    return shapes;
  }
  for (std::size_t draw = 0; draw < kDrawsPerShape * count && shapes.size() < count; ++draw) {
    GridPoint values;
    for (const DimensionRange& range : ranges_) {
      const double ratio = static_cast<double>(range.last) / static_cast<double>(range.first);
      values.push_back(std::llround(static_cast<double>(range.first) * std::pow(ratio, random.unit())));
    }
    const std::optional<Problem> problem = problem_of_kind(values, interface_->has_ragged() && draw % 2 == 1);
    if (problem && fits(*problem)) take(*problem);
  }
  return shapes;
}

}  // namespace moetune
