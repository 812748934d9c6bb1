#include "ranges/grid.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/integers.h"
#include "base/lists.h"

namespace moetune {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 40;

// "batch=1..256"
DimensionRange parse_named_range(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    throw BadInput("'" + std::string(text) + "' is no range; it is written batch=1..256");
  return parse_range(text.substr(0, equals), text.substr(equals + 1));
}

}  // namespace

std::optional<std::int64_t> parse_extent(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc()) return std::nullopt;
  const std::optional<std::int64_t> unit = unit_of_suffix(text.substr(static_cast<std::size_t>(end - text.data())));
  if (!unit) return std::nullopt;
  return number >= 1 && number <= kLargest / *unit ? std::optional(number * *unit) : std::nullopt;
}

std::int64_t geometric_middle(std::int64_t a, std::int64_t b) {
  return std::llround(std::sqrt(static_cast<double>(a) * static_cast<double>(b)));
}

DimensionRange parse_range(std::string_view dimension, std::string_view values) {
  const auto extent_of = [&](std::string_view text) {
    if (const std::optional<std::int64_t> extent = parse_extent(text)) return *extent;
    throw BadInput("'" + std::string(values) + "' is no range; it would be 1..256, 512..128k or 64");
  };
  const std::size_t dots = values.find("..");
  const std::int64_t first = extent_of(values.substr(0, dots));
  const std::int64_t last = dots == std::string_view::npos ? first : extent_of(values.substr(dots + 2));
  if (first <= last) return {std::string(dimension), first, last};
  throw BadInput("'" + std::string(values) + "' ends before it begins");
}

std::vector<DimensionRange> parse_ranges(std::string_view text) {
  std::vector<DimensionRange> ranges;
  for (const std::string_view part : split(text, ',')) {
    DimensionRange range = parse_named_range(part);
    for (const DimensionRange& other : ranges) {
      if (other.name == range.name) throw BadInput("'" + range.name + "' has two ranges");
    }
    ranges.push_back(std::move(range));
  }
  if (ranges.size() > kMostDimensions)
    throw BadInput("a range has at most " + std::to_string(kMostDimensions) + " dimensions");
  return ranges;
}

std::string ranges_text(const std::vector<DimensionRange>& ranges) {
  return joined(ranges, ",", [](const DimensionRange& range) {
    return range.name + "=" + std::to_string(range.first) + ".." + std::to_string(range.last);
  });
}

double octaves_between(std::int64_t a, std::int64_t b) {
  return std::abs(std::log2(static_cast<double>(a)) - std::log2(static_cast<double>(b)));
}

std::vector<std::int64_t> axis_coordinates(std::int64_t first, std::int64_t last, double octaves) {
  const double span = octaves_between(last, first);
  const int steps = std::max(1, static_cast<int>(std::ceil(span / octaves - 1e-9)));
  std::vector<std::int64_t> coordinates;
  for (int step = 0; step <= steps; ++step) {
    const double value = static_cast<double>(first) * std::exp2(span * step / steps);
    const std::int64_t coordinate = step == steps ? last : std::llround(value);
    if (coordinates.empty() || coordinate > coordinates.back()) coordinates.push_back(coordinate);
  }
  return coordinates;
}

std::vector<std::int64_t> within_tiles(std::vector<std::int64_t> coordinates) {
  constexpr std::int64_t kLeastMoved = 128, kLong = 512;
  for (std::size_t i = 1; i + 1 < coordinates.size(); ++i) {
    if (coordinates[i] < kLeastMoved) continue;
    // For short lengths, half of a long tile would be too far.
    const std::int64_t tile = coordinates[i] < kLong ? 64 : 128, middle = coordinates[i] < kLong ? 37 : 75;
    const std::int64_t inside = coordinates[i] / tile * tile + middle;
    if (inside < coordinates.back()) coordinates[i] = std::max(inside, coordinates[i - 1]);
  }
  return coordinates;
}

std::vector<GridPoint> grid_points(const std::vector<std::vector<std::int64_t>>& axes) {
  std::vector<GridPoint> points;
  if (axes.empty()) return points;
  points.emplace_back();
  for (const std::vector<std::int64_t>& axis : axes) {
    std::vector<GridPoint> longer;
    for (const GridPoint& point : points) {
      for (const std::int64_t coordinate : axis) {
        longer.push_back(point);
        longer.back().push_back(coordinate);
      }
    }
    points = std::move(longer);
  }
  return points;
}

double grid_distance(const GridPoint& a, const GridPoint& b) {
  double distance = 0;
  for (std::size_t axis = 0; axis < a.size(); ++axis) {
    const double ratio = octaves_between(a[axis], b[axis]);
    distance += ratio * ratio;
  }
  return distance;
}

void visit_spread(const std::vector<GridPoint>& points, const std::function<bool(std::size_t point)>& visit) {
  if (points.empty()) return;
  GridPoint low = points.front(), high = points.front();
  for (const GridPoint& point : points) {
    for (std::size_t axis = 0; axis < point.size(); ++axis) {
      low[axis] = std::min(low[axis], point[axis]);
      high[axis] = std::max(high[axis], point[axis]);
    }
  }
  GridPoint middle = low;
  for (std::size_t axis = 0; axis < low.size(); ++axis) middle[axis] = geometric_middle(low[axis], high[axis]);
  std::size_t chosen = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (grid_distance(points[i], middle) < grid_distance(points[chosen], middle)) chosen = i;
  }
  std::vector<double> logs;  // by point, then by axis
  for (const GridPoint& point : points) {
    for (const std::int64_t coordinate : point) logs.push_back(std::log2(static_cast<double>(coordinate)));
  }
  const std::size_t axes = low.size();
  const auto distance = [&](std::size_t a, std::size_t b) {
    double sum = 0;
    for (std::size_t axis = 0; axis < axes; ++axis) {
      const double octaves = logs[a * axes + axis] - logs[b * axes + axis];
      sum += octaves * octaves;
    }
    return sum;
  };
  std::vector<double> nearest(points.size(), std::numeric_limits<double>::infinity());
  for (std::size_t visited = 0; visited < points.size(); ++visited) {
    if (!visit(chosen)) return;
    for (std::size_t i = 0; i < points.size(); ++i) nearest[i] = std::min(nearest[i], distance(i, chosen));
    nearest[chosen] = -1;
    chosen = static_cast<std::size_t>(std::max_element(nearest.begin(), nearest.end()) - nearest.begin());
  }
}

std::vector<std::size_t> spread_order(const std::vector<GridPoint>& points) {
  std::vector<std::size_t> order;
  visit_spread(points, [&](std::size_t point) {
    order.push_back(point);
    return true;
  });
  return order;
}

}  // namespace moetune
