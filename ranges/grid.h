// The grid of a range: which values of a family's free dimensions are measured. Coordinates are spaced evenly by ratio.
//
// Plain values and pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dimension_range.h"

namespace moetune {

inline constexpr std::size_t kMostDimensions = 4;

// Reads one value: "256" or "128k"; k and m, also as K and M, are 1024 and 1024². nullopt for what is no number from 1
// to 2^40.
std::optional<std::int64_t> parse_extent(std::string_view text);

// Reads the values of one dimension: "1..256", "512..128k", or "64" for a range of one. Throws BadInput.
DimensionRange parse_range(std::string_view dimension, std::string_view values);

// Reads "batch=1..256,context=512..128k". Throws BadInput.
std::vector<DimensionRange> parse_ranges(std::string_view text);
std::string ranges_text(const std::vector<DimensionRange>& ranges);

// From first to last, both among them, with at most `octaves` between neighbours.
std::vector<std::int64_t> axis_coordinates(std::int64_t first, std::int64_t last, double octaves);

// Positions on all axes, the last one fastest. Empty without axes.
using GridPoint = std::vector<std::int64_t>;
std::vector<GridPoint> grid_points(const std::vector<std::vector<std::int64_t>>& axes);

// How far apart two values of at least 1 are.
double octaves_between(std::int64_t a, std::int64_t b);

// The sum of squares of octaves_between; positions are at least 1.
double grid_distance(const GridPoint& a, const GridPoint& b);

// An order in which each next point is as far as can be from those before it, so that a search that runs out of time
// has seen the whole range. Begins at the point nearest to the middle. Indexes into `points`.
std::vector<std::size_t> spread_order(const std::vector<GridPoint>& points);
// The same, point by point, until `visit` returns false.
void visit_spread(const std::vector<GridPoint>& points, const std::function<bool(std::size_t point)>& visit);

// Lengths in tokens are seldom whole tiles or pages: those between the ends that are 128 or more are moved into the
// middle of a tile, so that what is chosen there is not what only whole ones suit. Neighbours may become equal.
std::vector<std::int64_t> within_tiles(std::vector<std::int64_t> coordinates);

}  // namespace moetune
