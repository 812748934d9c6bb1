#include "dispatch/nearest_points.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace moetune {

void NearestPoints::build(std::size_t begin, std::size_t end, std::size_t axis) {
  if (end - begin < 2 || points_.front().place.empty()) return;
  const auto first = points_.begin() + static_cast<std::ptrdiff_t>(begin);
  const std::size_t half = (end - begin) / 2;
  std::nth_element(first, first + static_cast<std::ptrdiff_t>(half), points_.begin() + static_cast<std::ptrdiff_t>(end),
                   [&](const Point& a, const Point& b) { return a.place[axis] < b.place[axis]; });
  const std::size_t next = (axis + 1) % points_.front().place.size();
  build(begin, begin + half, next);
  build(begin + half + 1, end, next);
}

struct NearestPoints::Search {
  const Place& place;
  const double reach;
  double least = std::numeric_limits<double>::infinity();
  std::optional<std::uint32_t> best = std::nullopt;

  void look_at(const Point& point) {
    double sum = 0;
    for (std::size_t axis = 0; axis < place.size(); ++axis) {
      const double apart = std::abs(point.place[axis] - place[axis]);
      if (apart > reach) return;
      sum += apart * apart;
    }
    if (sum > least || (sum == least && best && *best < point.index)) return;
    least = sum;
    best = point.index;
  }

  void look_in(std::span<const Point> points, std::size_t axis) {
    if (points.empty()) return;
    const std::size_t half = points.size() / 2;
    look_at(points[half]);
    if (place.empty()) return look_in(points.subspan(half + 1), 0);
    const double beyond = place[axis] - points[half].place[axis];
    const std::size_t next = (axis + 1) % place.size();
    std::span<const Point> near = points.first(half), far = points.subspan(half + 1);
    if (beyond > 0) std::swap(near, far);
    look_in(near, next);
    if (std::abs(beyond) <= reach && beyond * beyond <= least) look_in(far, next);
  }
};

std::optional<std::uint32_t> NearestPoints::nearest(const Place& place, double reach) const {
  Search search{place, reach};
  search.look_in(points_, 0);
  return search.best;
}

}  // namespace moetune
