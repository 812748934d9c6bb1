// The nearest of many points, by the squares of their distances; of equally near ones the first that was added.
// Immutable once built; thread-safe. nearest() allocates nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/family_interface.h"

namespace moetune {

using Place = FixedVector<double, 3>;  // a coordinate on each axis

class NearestPoints {
 public:
  void add(const Place& place, std::uint32_t index) { points_.push_back({place, index}); }
  void build() { build(0, points_.size(), 0); }
  bool empty() const { return points_.empty(); }

  // The index of the nearest point that is within `reach` on each axis.
  std::optional<std::uint32_t> nearest(const Place& place, double reach) const;

 private:
  struct Point {
    Place place;
    std::uint32_t index;
  };
  struct Search;

  // A tree in place: the middle of a span parts it along the axis of its depth.
  void build(std::size_t begin, std::size_t end, std::size_t axis);

  std::vector<Point> points_;
};

}  // namespace moetune
