#include "dispatch/dispatch_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

namespace moetune {
namespace {

// Positions beyond it are in the last boxes: no served problem lies there, and each box costs questions for defaults.
constexpr std::int64_t kEnd = std::int64_t{1} << 24;
// Boxes far from everything measured, and those that a default's boundary crosses aslant, in octaves.
constexpr double kFarOctaves = 2, kFarOctavesOfThree = 2, kAslantOctaves = 0.125;
constexpr std::size_t kMostBoxes = std::size_t{1}
                                   << 14;  // of a kind of work; then boundaries are no longer followed

double octaves(std::int64_t low, std::int64_t high) {
  return std::log2(static_cast<double>(high) / static_cast<double>(low));
}

// The last position nearer to `low` than to `high` by ratio; less than `high`.
std::int64_t halfway(std::int64_t low, std::int64_t high) {
  const auto middle =
      static_cast<std::int64_t>(std::sqrt(static_cast<double>(low) * static_cast<double>(high)));
  return std::clamp(middle, low, high - 1);
}

FixedVector<double, 3> logarithms(const TablePoint& point) {
  FixedVector<double, 3> logs;
  for (const std::int64_t position : point.position) logs.push_back(std::log2(static_cast<double>(position)));
  return logs;
}

using Measured = DispatchTable::Measured;
using Default = DispatchTable::Default;

// Measured points of one kind of work, with their logarithms.
class Points {
 public:
  void add(const Measured& one) { known_.push_back({&one, logarithms(one.point)}); }
  // Those nearest on the first axis are found by halving.
  void sort() { std::ranges::stable_sort(known_, {}, &Known::first); }

  // The nearest point within so many octaves of a place on each axis; null if there is none.
  const Measured* nearest(const FixedVector<double, 3>& place, double reach) const {
    const Known* best = nullptr;
    double least = std::numeric_limits<double>::infinity();
    const double here = place.empty() ? 0 : place[0];
    auto one = std::ranges::lower_bound(known_, here - reach, {}, &Known::first);
    for (; one != known_.end() && one->first() <= here + reach; ++one) {
      double sum = 0;
      bool is_near = true;
      for (std::size_t axis = 0; axis < place.size(); ++axis) {
        const double apart = std::abs(one->logs[axis] - place[axis]);
        is_near = is_near && apart <= reach;
        sum += apart * apart;
      }
      if (!is_near || sum >= least) continue;
      least = sum;
      best = &*one;
    }
    return best != nullptr ? best->measured : nullptr;
  }

  // Whether a point lies within so many octaves of a box.
  bool has_near(const FixedVector<double, 3>& low, const FixedVector<double, 3>& high, double reach) const {
    const double first = low.empty() ? 0 : low[0] - reach, last = high.empty() ? 0 : high[0] + reach;
    auto one = std::ranges::lower_bound(known_, first, {}, &Known::first);
    for (; one != known_.end() && one->first() <= last; ++one) {
      bool is_near = true;
      for (std::size_t axis = 0; axis < low.size(); ++axis)
        is_near = is_near && one->logs[axis] >= low[axis] - reach && one->logs[axis] <= high[axis] + reach;
      if (is_near) return true;
    }
    return false;
  }

 private:
  struct Known {
    const Measured* measured;
    FixedVector<double, 3> logs;
    double first() const { return logs.empty() ? 0 : logs[0]; }
  };
  std::vector<Known> known_;
};

// The default at points that are corners and middles of many boxes: asking for one takes a microsecond.
class KnownDefaults {
 public:
  explicit KnownDefaults(const DispatchTable::DefaultAt& ask) : ask_(ask) {}

  const std::optional<Default>& at(const TablePoint& point) {
    const auto [known, is_new] = known_.try_emplace(point.position);
    if (is_new) known->second = ask_(point);
    return known->second;
  }

 private:
  struct Hash {
    std::size_t operator()(const FixedVector<std::int64_t, 3>& position) const {
      std::uint64_t hash = 0;
      for (const std::int64_t one : position) {
        hash = (hash ^ static_cast<std::uint64_t>(one)) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
      }
      return hash;
    }
  };
  struct Equal {
    bool operator()(const FixedVector<std::int64_t, 3>& a, const FixedVector<std::int64_t, 3>& b) const {
      return std::ranges::equal(a, b);
    }
  };

  const DispatchTable::DefaultAt& ask_;
  std::unordered_map<FixedVector<std::int64_t, 3>, std::optional<Default>, Hash, Equal> known_;
};

}  // namespace

void PointHull::add(const TablePoint& point) {
  const auto found =
      std::ranges::find_if(of_kinds_, [&](const Sides& sides) { return sides.low.ragged == point.ragged; });
  Sides& sides = found != of_kinds_.end() ? *found : of_kinds_.emplace_back(point, point);
  for (std::size_t axis = 0; axis < point.position.size(); ++axis) {
    sides.low.position[axis] = std::min(sides.low.position[axis], point.position[axis]);
    sides.high.position[axis] = std::max(sides.high.position[axis], point.position[axis]);
  }
}

bool PointHull::holds(const TablePoint& point) const {
  return std::ranges::any_of(of_kinds_, [&](const Sides& sides) {
    return sides.low.ragged == point.ragged &&
           std::ranges::equal(sides.low.position, point.position, std::ranges::less_equal()) &&
           std::ranges::equal(point.position, sides.high.position, std::ranges::less_equal());
  });
}

// Cuts the positions of one kind of work into boxes and chooses for each.
class TableBuilder {
 public:
  TableBuilder(DispatchTable& table, std::span<const Measured> measured, const DispatchTable::Grid& grid,
               const DispatchTable::DefaultAt& default_at, bool ragged)
      : table_(table), defaults_(default_at), axes_(grid.axes), ragged_(ragged) {
    // A plane without a winner of its own kind is served by the other's, if there is no default.
    const auto serves = [](const Measured& one) { return one.entry != Cell::kNone; };
    const bool has_own = std::ranges::any_of(
        measured, [&](const Measured& one) { return serves(one) && one.point.ragged == ragged; });
    for (const Measured& one : measured) {
      const bool is_of_kind = one.point.ragged == ragged;
      if (is_of_kind) mine_.push_back(&one);
      if (serves(one) && (is_of_kind || !has_own)) any_[one.inherited].add(one);
      if (serves(one) && is_of_kind && one.beat) winners_[one.inherited][*one.beat].add(one);
    }
    for (auto& origin : winners_) {
      for (auto& [config, points] : origin) points.sort();
    }
    for (Points& points : any_) points.sort();
  }

  void run() {
    TablePoint low, high;
    low.ragged = high.ragged = ragged_;
    for (std::size_t axis = 0; axis < axes_; ++axis) {
      low.position.push_back(1);
      high.position.push_back(kEnd);
    }
    first_box_ = table_.boxes_.size();
    table_.roots_.push_back(static_cast<std::uint32_t>(table_.nodes_.size()));
    cut(low, high);
  }

  // Once all boxes are there.
  void add_points() {
    std::map<std::size_t, std::vector<const Measured*>> of_boxes;
    for (const Measured* one : mine_) {
      const auto box = static_cast<std::size_t>(&table_.box_of(one->point) - table_.boxes_.data());
      std::vector<const Measured*>& known = of_boxes[box];
      const auto is_same = [&](const Measured* other) {
        return DispatchTable::is_same(other->point.position, one->point.position);
      };
      const auto before = std::ranges::find_if(known, is_same);
      if (before == known.end()) {
        known.push_back(one);
      } else if ((*before)->inherited && !one->inherited) {
        *before = one;
      }
    }
    for (const auto& [index, points] : of_boxes) {
      DispatchTable::Box& box = table_.boxes_[index];
      box.first_point = static_cast<std::uint32_t>(table_.points_.size());
      for (const Measured* one : points) {
        Cell cell{one->entry, ChoiceKind::exact};
        if (one->entry == Cell::kNone) {
          const std::optional<Default> here = defaults_.at(one->point);
          if (!here || here->entry == Cell::kNone) continue;
          cell = {here->entry, ChoiceKind::by_default};
        }
        table_.points_.push_back(one->point);
        table_.cells_.push_back(cell);
      }
      box.end_points = static_cast<std::uint32_t>(table_.points_.size());
    }
  }

 private:
  void cut(const TablePoint& low, const TablePoint& high) {
    std::optional<std::pair<std::size_t, std::int64_t>> at = too_wide(low, high);
    if (!at) at = change(low, high);
    if (!at) {
      add_box(low, high);
      return;
    }
    const auto [axis, last] = *at;
    const std::size_t node = table_.nodes_.size();
    table_.nodes_.push_back({last, 0, static_cast<std::uint8_t>(axis)});
    TablePoint below = high, above = low;
    below.position[axis] = last;
    above.position[axis] = last + 1;
    cut(low, below);
    table_.nodes_[node].above = static_cast<std::uint32_t>(table_.nodes_.size());
    cut(above, high);
  }

  std::optional<std::pair<std::size_t, std::int64_t>> too_wide(const TablePoint& low,
                                                               const TablePoint& high) {
    const bool is_three = axes_ > 2;
    const double far = is_three ? kFarOctavesOfThree : kFarOctaves;
    const double near = is_three ? DispatchTable::kBoxOctavesOfThree : DispatchTable::kBoxOctaves;
    // The first axis counts what blocks are made of.
    if (is_near_winner(low, high)) return widest(low, high, near, DispatchTable::kBoxOctavesOfThree);
    if (!defaults_.at(low)) return std::nullopt;  // no problem is as small as this, or larger
    return widest(low, high, far, far);
  }

  // Where the axis is halved that is wider by most than its limit in octaves; nullopt if none is.
  std::optional<std::pair<std::size_t, std::int64_t>> widest(const TablePoint& low, const TablePoint& high,
                                                             double of_first, double of_others) const {
    std::optional<std::pair<std::size_t, std::int64_t>> at;
    double most = 1;
    for (std::size_t axis = 0; axis < axes_; ++axis) {
      const double width = octaves(low.position[axis], high.position[axis]);
      const double times = width / (axis == 0 ? of_first : of_others);
      if (times <= most) continue;
      most = times;
      at = {axis, halfway(low.position[axis], high.position[axis])};
    }
    return at;
  }

  bool is_near_winner(const TablePoint& low, const TablePoint& high) const {
    const FixedVector<double, 3> first = logarithms(low), last = logarithms(high);
    for (const auto& origin : winners_) {
      for (const auto& [config, points] : origin) {
        if (points.has_near(first, last, DispatchTable::kReach)) return true;
      }
    }
    return false;
  }

  // Where the default changes between corners of a box along an axis; nullopt if all have one, or the boundary lies
  // aslant and the box is small.
  std::optional<std::pair<std::size_t, std::int64_t>> change(const TablePoint& low, const TablePoint& high) {
    if (table_.boxes_.size() - first_box_ >= kMostBoxes) return std::nullopt;
    std::vector<std::optional<Default>> corners;
    for (std::size_t corner = 0; corner < std::size_t{1} << axes_; ++corner)
      corners.push_back(defaults_.at(corner_of(low, high, corner)));
    if (std::ranges::all_of(corners, [&](const auto& one) { return one == corners.front(); })) {
      const bool is_same =
          !corners.front() ||
          !widest(low, high, DispatchTable::kBoxOctavesOfThree, DispatchTable::kBoxOctavesOfThree) ||
          defaults_.at(middle_of(low, high)) == corners.front();
      return is_same ? std::nullopt : widest(low, high, kAslantOctaves, kAslantOctaves);
    }
    for (std::size_t axis = 0; axis < axes_; ++axis) {
      const std::size_t bit = std::size_t{1} << axis;
      bool is_along = low.position[axis] < high.position[axis];
      for (std::size_t corner = 0; corner < corners.size(); ++corner) {  // no other axis has a say
        for (std::size_t other = 0; other < axes_; ++other)
          is_along =
              is_along && (other == axis || corners[corner] == corners[corner ^ std::size_t{1} << other]);
      }
      if (is_along) return std::pair(axis, last_as_at(low, axis, high.position[axis], corners[0]));
      if (corners[0] == corners[bit] || low.position[axis] == high.position[axis]) continue;
      if (!widest(low, high, kAslantOctaves, kAslantOctaves)) continue;
      return std::pair(axis, last_as_at(low, axis, high.position[axis], corners[0]));
    }
    return widest(low, high, kAslantOctaves, kAslantOctaves);
  }

  static TablePoint corner_of(const TablePoint& low, const TablePoint& high, std::size_t corner) {
    TablePoint point = low;
    for (std::size_t axis = 0; axis < low.position.size(); ++axis) {
      if ((corner >> axis & 1) != 0) point.position[axis] = high.position[axis];
    }
    return point;
  }

  static TablePoint middle_of(const TablePoint& low, const TablePoint& high) {
    TablePoint middle = low;
    for (std::size_t axis = 0; axis < low.position.size(); ++axis) {
      if (low.position[axis] < high.position[axis])
        middle.position[axis] = halfway(low.position[axis], high.position[axis]);
    }
    return middle;
  }

  // The last position on the axis that has the default of `point`, which `high` has not.
  std::int64_t last_as_at(TablePoint point, std::size_t axis, std::int64_t high,
                          const std::optional<Default>& of_point) {
    std::int64_t low = point.position[axis];
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      point.position[axis] = middle;
      (defaults_.at(point) == of_point ? low : high) = middle;
    }
    return low;
  }

  void add_box(const TablePoint& low, const TablePoint& high) {
    table_.nodes_.push_back(
        {0, static_cast<std::uint32_t>(table_.boxes_.size()), DispatchTable::Node::kLeaf});
    table_.boxes_.push_back({low, high});
    table_.cells_.push_back(choose(middle_of(low, high)));
  }

  Cell choose(const TablePoint& point) {
    const std::optional<Default> here = defaults_.at(point);
    const FixedVector<double, 3> place = logarithms(point);
    for (const auto& origin : winners_) {
      if (!here) break;
      const auto points = origin.find(here->config);
      const Measured* found =
          points != origin.end() ? points->second.nearest(place, DispatchTable::kReach) : nullptr;
      if (found != nullptr) return {found->entry, ChoiceKind::nearest};
    }
    if (here && here->entry != Cell::kNone) return {here->entry, ChoiceKind::by_default};
    for (const double reach : {DispatchTable::kReach, std::numeric_limits<double>::infinity()}) {
      for (const Points& points : any_) {
        if (const Measured* found = points.nearest(place, reach)) return {found->entry, ChoiceKind::nearest};
      }
    }
    return {};
  }

  DispatchTable& table_;
  KnownDefaults defaults_;  // of this kind of work
  const std::size_t axes_;
  const bool ragged_;
  std::size_t first_box_ = 0;
  std::vector<const Measured*> mine_;           // of this kind of work
  Points any_[2];                               // of this hardware, and inherited
  std::map<std::uint32_t, Points> winners_[2];  // the same by the default that they beat
};

DispatchTable DispatchTable::build(std::span<const Measured> measured, const Grid& grid,
                                   const DefaultAt& default_at) {
  DispatchTable table;
  std::vector<TableBuilder> builders;
  builders.reserve(2);
  for (const bool ragged : {false, true}) {
    if (ragged && !grid.has_ragged) break;
    builders.emplace_back(table, measured, grid, default_at, ragged).run();
  }
  for (TableBuilder& builder : builders) builder.add_points();
  return table;
}

DispatchTable DispatchTable::constant(Cell cell, std::size_t axes) {
  DispatchTable table;
  Box box;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    box.low.position.push_back(1);
    box.high.position.push_back(kEnd);
  }
  table.roots_.push_back(0);
  table.nodes_.push_back({});
  table.boxes_.push_back(box);
  table.cells_.push_back(cell);
  return table;
}

const DispatchTable::Box& DispatchTable::box_of(const TablePoint& point) const {
  std::uint32_t at = roots_[point.ragged ? roots_.size() - 1 : 0];
  while (nodes_[at].axis != Node::kLeaf)
    at = point.position[nodes_[at].axis] <= nodes_[at].last ? at + 1 : nodes_[at].above;
  return boxes_[nodes_[at].above];
}

// The last boxes have no end.
void DispatchTable::visit(
    const TablePoint& most,
    const std::function<void(std::size_t cell, const TablePoint& corner)>& visit) const {
  const auto is_within = [&](const TablePoint& point) {
    return std::ranges::equal(point.position, most.position, std::ranges::less_equal());
  };
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    if (!is_within(boxes_[i].low)) continue;
    TablePoint corner = boxes_[i].high;
    for (std::size_t axis = 0; axis < corner.position.size(); ++axis) {
      const bool is_last = corner.position[axis] == kEnd;
      corner.position[axis] =
          is_last ? most.position[axis] : std::min(corner.position[axis], most.position[axis]);
    }
    visit(i, corner);
  }
  for (std::size_t i = 0; i < points_.size(); ++i) {
    if (is_within(points_[i])) visit(boxes_.size() + i, points_[i]);
  }
}

void DispatchTable::visit_within(
    const TablePoint& most,
    const std::function<void(const Cell& cell, const TablePoint& corner)>& visit) const {
  this->visit(most, [&](std::size_t cell, const TablePoint& corner) { visit(cells_[cell], corner); });
}

void DispatchTable::replace_within(
    const TablePoint& most, const std::function<Cell(const Cell& cell, const TablePoint& corner)>& replace) {
  visit(most,
        [&](std::size_t cell, const TablePoint& corner) { cells_[cell] = replace(cells_[cell], corner); });
}

std::vector<CrossedCell> DispatchTable::cells_between(const TablePoint& from, std::int64_t last) const {
  if (from.position.empty()) return {{find(from), last}};
  const std::size_t axis = from.position.size() - 1;
  std::vector<CrossedCell> found;
  TablePoint point = from;
  std::int64_t& position = point.position[axis];
  while (true) {
    // Up to the end of the box, or of a measured point, or before the next one.
    const Box& box = box_of(point);
    const bool is_last = box.high.position[axis] == kEnd;
    std::int64_t end = is_last ? last : std::min(last, box.high.position[axis]);
    for (std::uint32_t i = box.first_point; i < box.end_points; ++i) {
      TablePoint measured = points_[i];
      const std::int64_t at = std::exchange(measured.position[axis], position);
      if (!is_same(measured.position, point.position) || at < position) continue;
      end = std::min(end, at == position ? at : at - 1);
    }
    found.push_back({find(point), end});
    if (end >= last) break;
    position = end + 1;
  }
  return found;
}

std::string DispatchTable::text() const {
  std::string text;
  const auto add = [&](const TablePoint& point) {
    for (const std::int64_t position : point.position) text += std::to_string(position) + " ";
    text += point.ragged ? "/" : "|";
  };
  for (const Box& box : boxes_) add(box.high);
  for (const TablePoint& point : points_) add(point);
  return text;
}

}  // namespace moetune
