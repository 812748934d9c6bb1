#include "runtime/dispatch_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace moetune {
namespace {

// The last value nearer to `low` than to `high` by ratio.
std::int64_t halfway(std::int64_t low, std::int64_t high) {
  const auto middle =
      static_cast<std::int64_t>(std::sqrt(static_cast<double>(low) * static_cast<double>(high)));
  return std::clamp(middle, low, high - 1);
}

double log_ratio(std::int64_t a, std::int64_t b) {
  return std::log2(static_cast<double>(a) / static_cast<double>(b));
}

struct Nearest {
  const DispatchTable::Measured* measured = nullptr;
  bool within_reach = false;
  bool exact = false;
};

// Of the winners of this kind of work if there are any, else of the other.
Nearest nearest(std::span<const DispatchTable::Measured> all, const TablePoint& point, bool same_kind) {
  Nearest best;
  double least = std::numeric_limits<double>::infinity();
  for (const DispatchTable::Measured& measured : all) {
    if (same_kind && measured.point.uneven != point.uneven) continue;
    double distance = 0, farthest = 0;
    for (std::size_t axis = 0; axis < point.position.size(); ++axis) {
      const double ratio = std::abs(log_ratio(measured.point.position[axis], point.position[axis]));
      distance += ratio * ratio;
      farthest = std::max(farthest, ratio);
    }
    if (distance < least) {
      least = distance;
      best = {&measured, farthest <= DispatchTable::kReach, distance == 0};
    }
  }
  return best;
}

void thin_out(std::vector<std::int64_t>& values) {
  if (values.size() <= DispatchTable::kMaxCoordinates) return;
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < DispatchTable::kMaxCoordinates; ++i)
    kept.push_back(values[i * (values.size() - 1) / (DispatchTable::kMaxCoordinates - 1)]);
  values = std::move(kept);
}

}  // namespace

DispatchTable::Axis DispatchTable::make_axis(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  thin_out(values);
  // Beyond what was measured, as far as a choice reaches and one step more, where the default begins.
  const std::int64_t first = std::max<std::int64_t>(1, values.front() / 8);
  const std::int64_t last = values.back() > (std::int64_t{1} << 40) ? values.back() : values.back() * 8;
  std::vector<std::int64_t> all = values;
  for (std::int64_t power = 1; power <= last; power *= 2) {
    const bool stands = std::any_of(values.begin(), values.end(), [&](std::int64_t value) {
      return std::abs(log_ratio(value, power)) < 0.5;
    });
    if (power >= first && !stands) all.push_back(power);
  }
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

TablePoint DispatchTable::point_of(std::size_t index, bool uneven) const {
  TablePoint point;
  point.uneven = uneven;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis)
    point.position.push_back(
        axes_[axis].coordinates[index / strides_[axis] % axes_[axis].coordinates.size()]);
  return point;
}

std::size_t DispatchTable::plane_size() const {
  std::size_t size = 1;
  for (const Axis& axis : axes_) size *= axis.coordinates.size();
  return size;
}

DispatchTable DispatchTable::constant(Cell cell) {
  DispatchTable table;
  table.cells_.push_back(cell);
  return table;
}

DispatchTable DispatchTable::build(std::span<const Measured> measured, std::size_t axes,
                                   const DefaultAt& default_at) {
  DispatchTable table;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    std::vector<std::int64_t> values;
    for (const Measured& one : measured) values.push_back(one.point.position[axis]);
    if (values.empty()) values.push_back(1);
    table.axes_.push_back(make_axis(std::move(values)));
  }
  table.strides_.assign(axes, 1);
  for (std::size_t axis = axes; axis-- > 1;)
    table.strides_[axis - 1] = table.strides_[axis] * table.axes_[axis].coordinates.size();
  const auto is_uneven = [](const Measured& one) { return one.point.uneven; };
  const bool any_uneven = std::any_of(measured.begin(), measured.end(), is_uneven);
  const bool any_even = !std::all_of(measured.begin(), measured.end(), is_uneven);
  const std::size_t plane = table.plane_size();
  table.uneven_ = any_even && any_uneven ? plane : 0;
  for (const bool uneven : {false, true}) {
    if (uneven && table.uneven_ == 0) break;
    for (std::size_t index = 0; index < plane; ++index) {
      const TablePoint point = table.point_of(index, uneven);
      const Nearest found = nearest(measured, point, table.uneven_ > 0);
      Cell cell;
      if (found.measured != nullptr && found.within_reach) {
        cell = {found.measured->entry, found.exact ? ChoiceKind::exact : ChoiceKind::nearest};
      } else if (const std::optional<std::uint32_t> entry = default_at(point)) {
        cell = {*entry, ChoiceKind::fallback};
      } else if (found.measured != nullptr) {
        cell = {found.measured->entry, ChoiceKind::nearest};
      }
      table.cells_.push_back(cell);
    }
  }
  return table;
}

std::optional<TablePoint> DispatchTable::corner_within(std::size_t index, const TablePoint& most) const {
  const std::size_t in_plane = uneven_ > 0 ? index % uneven_ : index;
  TablePoint corner;
  corner.uneven = uneven_ > 0 && index >= uneven_;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
    const std::vector<std::int64_t>& ends = axes_[axis].ends;
    const std::size_t at = in_plane / strides_[axis] % axes_[axis].coordinates.size();
    if (at > 0 && ends[at - 1] + 1 > most.position[axis]) return std::nullopt;
    corner.position.push_back(at < ends.size() ? std::min(ends[at], most.position[axis])
                                               : most.position[axis]);
  }
  return corner;
}

void DispatchTable::visit_within(
    const TablePoint& most,
    const std::function<void(const Cell& cell, const TablePoint& corner)>& visit) const {
  for (std::size_t index = 0; index < cells_.size(); ++index) {
    if (const std::optional<TablePoint> corner = corner_within(index, most)) visit(cells_[index], *corner);
  }
}

void DispatchTable::replace_within(
    const TablePoint& most, const std::function<Cell(const Cell& cell, const TablePoint& corner)>& replace) {
  for (std::size_t index = 0; index < cells_.size(); ++index) {
    if (const std::optional<TablePoint> corner = corner_within(index, most))
      cells_[index] = replace(cells_[index], *corner);
  }
}

std::vector<Cell> DispatchTable::cells_between(const TablePoint& from, std::int64_t last) const {
  std::vector<Cell> found{find(from)};
  if (axes_.empty()) return found;
  TablePoint point = from;
  const std::size_t axis = axes_.size() - 1;
  for (const std::int64_t end : axes_[axis].ends) {
    if (end < from.position[axis] || end >= last) continue;
    point.position[axis] = end + 1;
    found.push_back(find(point));
  }
  return found;
}

std::string DispatchTable::axes_text() const {
  std::string text;
  for (const Axis& axis : axes_) {
    for (const std::int64_t coordinate : axis.coordinates) text += std::to_string(coordinate) + " ";
    text += "|";
  }
  return text;
}

}  // namespace moetune
