#include "runtime/dispatch_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>

#include "ranges/grid.h"

namespace moetune {
namespace {

static_assert(ExpectedGrid::kNone == Cell::kNone);

// The last value nearer to `low` than to `high` by ratio.
std::int64_t halfway(std::int64_t low, std::int64_t high) {
  const auto middle =
      static_cast<std::int64_t>(std::sqrt(static_cast<double>(low) * static_cast<double>(high)));
  return std::clamp(middle, low, high - 1);
}

struct Nearest {
  const DispatchTable::Measured* measured = nullptr;
  bool within_reach = false;
  bool same_kind = false;  // of work
};

// Finds what was measured at a point, and the nearest measured point of every cell, plane by plane and row by row:
// within a row the last position alone changes. Logarithms are taken once.
class Measurements {
 public:
  // The measured points that serve one kind of work: those of that kind if there are any, else all.
  Measurements(std::span<const DispatchTable::Measured> all, std::size_t axes, bool uneven)
      : axes_(axes), uneven_(uneven) {
    const auto serves = [](const auto& one) { return one.entry != Cell::kNone; };
    const bool same_kind =
        std::ranges::any_of(all, [&](const auto& one) { return serves(one) && one.point.uneven == uneven; });
    for (const DispatchTable::Measured& one : all) {
      if (serves(one) && (!same_kind || one.point.uneven == uneven)) points_.push_back(&one);
    }
    for (std::size_t axis = 0; axis < axes; ++axis) {
      for (const DispatchTable::Measured* one : points_)
        logs_.push_back(std::log2(static_cast<double>(one->point.position[axis])));
    }
    before_.resize(points_.size());
    if (axes > 0) kept_.resize(axes - 1);
    in_order_ = points_;
    std::ranges::stable_sort(in_order_, is_before, position_of);
  }

  // What was measured at the very point, of the same kind of work; null if nothing was.
  const DispatchTable::Measured* at(const TablePoint& point) const {
    const auto found = std::ranges::lower_bound(in_order_, point.position, is_before, position_of);
    const bool is_here = found != in_order_.end() && std::ranges::equal(position_of(*found), point.position);
    return is_here && (*found)->point.uneven == uneven_ ? *found : nullptr;
  }

  Nearest nearest(const TablePoint& point) {
    enter_row(point);
    const std::size_t count = points_.size();
    const double here = axes_ > 0 ? std::log2(static_cast<double>(point.position[axes_ - 1])) : 0;
    const double* const last = axes_ > 0 ? logs_.data() + (axes_ - 1) * count : nullptr;
    std::size_t best = count;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < count; ++i) {
      const double ratio = last != nullptr ? std::abs(last[i] - here) : 0;
      const double distance = before_[i] + ratio * ratio;
      if (distance >= least) continue;
      least = distance;
      best = i;
    }
    if (best == count) return {};
    constexpr double kReach = DispatchTable::kReach;
    const bool is_within_reach = least <= kReach * kReach * static_cast<double>(axes_);
    return {points_[best], is_within_reach, points_[best]->point.uneven == uneven_};
  }

 private:
  using Position = decltype(TablePoint::position);

  static const Position& position_of(const DispatchTable::Measured* one) { return one->point.position; }
  static bool is_before(const Position& a, const Position& b) {
    return std::ranges::lexicographical_compare(a, b);
  }

  // The sums of squares over all axes but the last.
  void enter_row(const TablePoint& point) {
    const auto upper = [&](std::size_t axis) { return point.position[axis]; };
    bool is_same = entered_;
    for (std::size_t axis = 0; axis + 1 < axes_; ++axis) is_same = is_same && kept_[axis] == upper(axis);
    if (is_same) return;
    entered_ = true;
    std::ranges::fill(before_, 0);
    for (std::size_t axis = 0; axis + 1 < axes_; ++axis) {
      kept_[axis] = upper(axis);
      const double here = std::log2(static_cast<double>(upper(axis)));
      const double* const logs = logs_.data() + axis * points_.size();
      for (std::size_t i = 0; i < points_.size(); ++i) {
        const double ratio = std::abs(logs[i] - here);
        before_[i] += ratio * ratio;
      }
    }
  }

  std::size_t axes_;
  bool uneven_;
  std::vector<const DispatchTable::Measured*> points_, in_order_;  // the second by position
  std::vector<double> logs_;                                       // by axis, then by point
  bool entered_ = false;
  std::vector<std::int64_t> kept_;  // the row's positions
  std::vector<double> before_;      // by point
};

// Whether a point lies among the cells of a range table.
class RangeBox {
 public:
  explicit RangeBox(std::span<const DispatchTable::Measured> measured) {
    for (const DispatchTable::Measured& one : measured) {
      if (!one.of_range) continue;
      for (std::size_t axis = 0; axis < one.point.position.size(); ++axis) {
        const std::int64_t position = one.point.position[axis];
        if (low_.size() <= axis) {
          low_.push_back(position);
          high_.push_back(position);
        }
        low_[axis] = std::min(low_[axis], position);
        high_[axis] = std::max(high_[axis], position);
      }
    }
  }

  bool holds(const TablePoint& point) const {
    bool within = !low_.empty();
    for (std::size_t axis = 0; axis < low_.size(); ++axis)
      within = within && point.position[axis] >= low_[axis] && point.position[axis] <= high_[axis];
    return within;
  }

 private:
  std::vector<std::int64_t> low_, high_;
};

// The expected choice of the nearest point, on each axis by ratio; kNone beyond the grid.
std::uint32_t expected_at(const ExpectedGrid& expected, const TablePoint& point) {
  std::size_t index = 0;
  for (std::size_t axis = 0; axis < expected.axes.size(); ++axis) {
    const std::vector<std::int64_t>& coordinates = expected.axes[axis];
    const std::int64_t value = point.position[axis];
    if (value < coordinates.front() || value > coordinates.back()) return Cell::kNone;
    auto next = std::ranges::lower_bound(coordinates, value);
    if (*next != value && value <= halfway(*(next - 1), *next)) --next;
    index = index * coordinates.size() + static_cast<std::size_t>(next - coordinates.begin());
  }
  return expected.choices[index];
}

void thin_out(std::vector<std::int64_t>& values, std::size_t most) {
  if (values.size() <= most) return;
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < most; ++i) kept.push_back(values[i * (values.size() - 1) / (most - 1)]);
  values = std::move(kept);
}

}  // namespace

DispatchTable::Axis DispatchTable::make_axis(std::vector<std::int64_t> values, std::size_t axes,
                                             const Span& of_range) {
  // The number of cells is what opening a family takes: three axes are coarser.
  const double step_octaves = axes > 2 ? 1 : 0.5;
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  thin_out(values, axes > 2 ? kMaxOfThree : kMaxCoordinates);
  // Beyond what was measured, as far as a choice reaches and one step more, where the default begins.
  const std::int64_t beyond = axes > 2 ? 8 : 4;
  const std::int64_t first = std::max<std::int64_t>(1, values.front() / beyond);
  const std::int64_t last = values.back() > (std::int64_t{1} << 40) ? values.back() : values.back() * beyond;
  std::vector<std::int64_t> all = values;
  for (int step = 0;; ++step) {
    const auto value = static_cast<std::int64_t>(std::llround(std::exp2(step_octaves * step)));
    if (value > last) break;
    const bool is_near = std::any_of(all.begin(), all.end(), [&](std::int64_t other) {
      return octaves_between(other, value) < step_octaves / 2;
    });
    // A half octave between two cells of a range would go to one of them whole, past the middle.
    const bool is_within = value >= of_range.first && value <= of_range.last;
    if (value >= first && !is_near && !is_within) all.push_back(value);
  }
  // The default may change farther away, too.
  for (std::int64_t value = first; value > 1;) all.push_back(value = std::max<std::int64_t>(1, value / 4));
  for (int far = 0; far < 2 && last < (std::int64_t{1} << 40); ++far)
    all.push_back(last * (far == 0 ? 4 : 16));
  std::sort(all.begin(), all.end());
  Axis axis{std::move(all), {}};
  for (std::size_t i = 0; i + 1 < axis.coordinates.size(); ++i)
    axis.ends.push_back(halfway(axis.coordinates[i], axis.coordinates[i + 1]));
  return axis;
}

std::size_t DispatchTable::position(const Axis& axis, std::int64_t value) {
  // The first end that is not below the value; branch-free halving over at most 256 ends.
  const std::int64_t* base = axis.ends.data();
  std::size_t count = axis.ends.size();
  while (count > 1) {
    const std::size_t half = count / 2;
    base += base[half - 1] < value ? half : 0;
    count -= half;
  }
  return static_cast<std::size_t>(base - axis.ends.data()) + (count == 1 && *base < value ? 1 : 0);
}

TablePoint DispatchTable::Plane::point_of(std::size_t index) const {
  TablePoint point;
  point.uneven = uneven;
  for (std::size_t axis = 0; axis < axes.size(); ++axis)
    point.position.push_back(axes[axis].coordinates[index / strides[axis] % axes[axis].coordinates.size()]);
  return point;
}

DispatchTable DispatchTable::constant(Cell cell, std::size_t axes) {
  DispatchTable table;
  Plane& plane = table.planes_.emplace_back();
  plane.axes.assign(axes, Axis{{1}, {}});
  plane.strides.assign(axes, 1);
  table.cells_.push_back(cell);
  return table;
}

// The coordinates are those of the measured points of this kind of work; of all if there is none. Where choices are
// expected, their grid has those of the range table's cells that it keeps apart.
DispatchTable::Plane DispatchTable::make_plane(std::span<const Measured> measured,
                                               const ExpectedGrid* expected, std::size_t axes, bool uneven) {
  const auto is_of_kind = [&](const Measured& one) { return one.point.uneven == uneven; };
  const bool takes_all = std::ranges::none_of(measured, is_of_kind);
  Plane plane{.uneven = uneven, .axes = {}, .strides = std::vector<std::size_t>(axes, 1)};
  for (std::size_t axis = 0; axis < axes; ++axis) {
    std::vector<std::int64_t> values, winners;
    Span of_range;
    for (const Measured& one : measured) {
      if (!takes_all && !is_of_kind(one)) continue;
      const std::int64_t value = one.point.position[axis];
      if (!one.of_range || expected == nullptr) values.push_back(value);
      if (!one.of_range) {
        winners.push_back(value);
        continue;
      }
      const bool is_first = of_range.first > of_range.last;
      of_range = {is_first ? value : std::min(of_range.first, value), std::max(of_range.last, value)};
    }
    if (expected != nullptr)
      values.insert(values.end(), expected->axes[axis].begin(), expected->axes[axis].end());
    // Within a range table's coarser cells a winner of one problem has a half octave.
    for (const std::int64_t value : winners) {
      if (value < of_range.first || value > of_range.last) continue;
      values.push_back(
          std::max<std::int64_t>(1, std::llround(static_cast<double>(value) / std::numbers::sqrt2)));
      values.push_back(std::llround(static_cast<double>(value) * std::numbers::sqrt2));
    }
    if (values.empty()) values.push_back(1);
    plane.axes.push_back(make_axis(std::move(values), axes, of_range));
    plane.size *= plane.axes.back().coordinates.size();
  }
  for (std::size_t axis = axes; axis-- > 1;)
    plane.strides[axis - 1] = plane.strides[axis] * plane.axes[axis].coordinates.size();
  return plane;
}

DispatchTable DispatchTable::build(std::span<const Measured> measured, const Grid& grid,
                                   const DefaultAt& default_at, std::span<const ExpectedGrid> expected) {
  DispatchTable table;
  // What this hardware has measured, if something is inherited, and the rest.
  std::vector<Measured> own, rest;
  std::ranges::partition_copy(measured, std::back_inserter(rest), std::back_inserter(own),
                              &Measured::inherited);
  if (rest.empty()) rest.swap(own);
  Measurements own_even(own, grid.axes, false), own_uneven(own, grid.axes, true);
  Measurements of_even(rest, grid.axes, false), of_uneven(rest, grid.axes, true);
  const RangeBox box(measured);
  // What is known of a winner is that it is faster than the default that it has met.
  const auto beats_default = [&](const Nearest& found, const TablePoint& point) {
    if (!found.within_reach || !found.same_kind) return false;
    const std::optional<Default> here = default_at(point), there = default_at(found.measured->point);
    return !here || !there || (found.measured->met_default && here->config == there->config);
  };
  const auto expected_of = [&](bool uneven) {
    const auto found = std::ranges::find(expected, uneven, &ExpectedGrid::uneven);
    return found != expected.end() ? &*found : nullptr;
  };
  const auto choose = [&](const TablePoint& point) -> Cell {
    Measurements& first = point.uneven ? own_uneven : own_even;
    Measurements& measurements = point.uneven ? of_uneven : of_even;
    for (const Measurements* const known : {&first, &measurements}) {
      if (const Measured* const here = known->at(point)) return {here->entry, ChoiceKind::exact};
    }
    const Nearest nearest_own = first.nearest(point);
    if (beats_default(nearest_own, point)) return {nearest_own.measured->entry, ChoiceKind::nearest};
    if (const ExpectedGrid* const choices = expected_of(point.uneven)) {
      const std::uint32_t entry = expected_at(*choices, point);
      if (entry != Cell::kNone) return {entry, ChoiceKind::nearest};
    }
    const Nearest found = measurements.nearest(point);
    if (found.within_reach && found.same_kind && found.measured->of_range && box.holds(point))
      return {found.measured->entry, ChoiceKind::nearest};
    if (beats_default(found, point)) return {found.measured->entry, ChoiceKind::nearest};
    const std::optional<Default> here = default_at(point);
    if (here && here->entry != Cell::kNone) return {here->entry, ChoiceKind::fallback};
    const Nearest& last = found.same_kind || nearest_own.measured == nullptr ? found : nearest_own;
    return last.measured != nullptr ? Cell{last.measured->entry, ChoiceKind::nearest} : Cell{};
  };
  for (const bool uneven : {false, true}) {
    if (uneven && !grid.has_uneven) break;
    Plane plane = make_plane(measured, expected_of(uneven), grid.axes, uneven);
    plane.first = table.cells_.size();
    for (std::size_t index = 0; index < plane.size; ++index)
      table.cells_.push_back(choose(plane.point_of(index)));
    table.planes_.push_back(std::move(plane));
  }
  return table;
}

std::optional<TablePoint> DispatchTable::Plane::corner_within(std::size_t index,
                                                              const TablePoint& most) const {
  TablePoint corner;
  corner.uneven = uneven;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    const std::vector<std::int64_t>& ends = axes[axis].ends;
    const std::size_t at = index / strides[axis] % axes[axis].coordinates.size();
    if (at > 0 && ends[at - 1] + 1 > most.position[axis]) return std::nullopt;
    corner.position.push_back(at < ends.size() ? std::min(ends[at], most.position[axis])
                                               : most.position[axis]);
  }
  return corner;
}

void DispatchTable::visit_within(
    const TablePoint& most,
    const std::function<void(const Cell& cell, const TablePoint& corner)>& visit) const {
  for (const Plane& plane : planes_) {
    for (std::size_t index = 0; index < plane.size; ++index) {
      if (const std::optional<TablePoint> corner = plane.corner_within(index, most))
        visit(cells_[plane.first + index], *corner);
    }
  }
}

void DispatchTable::replace_within(
    const TablePoint& most, const std::function<Cell(const Cell& cell, const TablePoint& corner)>& replace) {
  for (const Plane& plane : planes_) {
    for (std::size_t index = 0; index < plane.size; ++index) {
      Cell& cell = cells_[plane.first + index];
      if (const std::optional<TablePoint> corner = plane.corner_within(index, most))
        cell = replace(cell, *corner);
    }
  }
}

std::vector<CrossedCell> DispatchTable::cells_between(const TablePoint& from, std::int64_t last) const {
  std::vector<CrossedCell> found{{find(from), last}};
  const std::vector<Axis>& axes = plane_of(from).axes;
  if (axes.empty()) return found;
  TablePoint point = from;
  const std::size_t axis = axes.size() - 1;
  for (const std::int64_t end : axes[axis].ends) {
    if (end < from.position[axis] || end >= last) continue;
    found.back().last = end;
    point.position[axis] = end + 1;
    found.push_back({find(point), last});
  }
  return found;
}

std::string DispatchTable::axes_text() const {
  std::string text;
  for (const Plane& plane : planes_) {
    for (const Axis& axis : plane.axes) {
      for (const std::int64_t coordinate : axis.coordinates) text += std::to_string(coordinate) + " ";
      text += "|";
    }
  }
  return text;
}

}  // namespace moetune
