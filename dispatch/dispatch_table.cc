#include "dispatch/dispatch_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace moetune {
namespace {

constexpr double kAnywhere = std::numeric_limits<double>::infinity();

Place place_of(const TablePoint& point) {
  Place place;
  for (const std::int64_t position : point.position) place.push_back(std::log2(static_cast<double>(position)));
  return place;
}

// How far a place is from the nearest one of a region on the axis where that is most, and the squares of its distances
// to the nearest and to the farthest one.
struct Distances {
  double most = 0, nearest = 0, farthest = 0;
};

Distances distances(const Place& place, const Place& low, const Place& high) {
  Distances all;
  for (std::size_t axis = 0; axis < place.size(); ++axis) {
    const double near = std::max({low[axis] - place[axis], place[axis] - high[axis], 0.0});
    const double far = std::max(std::abs(place[axis] - low[axis]), std::abs(place[axis] - high[axis]));
    all.most = std::max(all.most, near);
    all.nearest += near * near;
    all.farthest += far * far;
  }
  return all;
}

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

std::size_t DispatchTable::PointHash::operator()(const TablePoint& point) const {
  std::uint64_t hash = point.ragged ? 1 : 0;
  for (const std::int64_t one : point.position) {
    hash = (hash ^ static_cast<std::uint64_t>(one)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

DispatchTable::DispatchTable(std::vector<Measured> measured, std::vector<std::uint32_t> default_entries,
                             const SpaceDefaults& defaults)
    : defaults_(defaults), measured_(std::move(measured)), default_entries_(std::move(default_entries)) {
  for (Plane& plane : planes_) {
    for (auto& points : plane.met) points.resize(default_entries_.size());
  }
  for (std::uint32_t i = 0; i < measured_.size(); ++i) {
    const Measured& one = measured_[i];
    const auto [known, is_new] = at_points_.try_emplace(one.point, i);
    if (!is_new && measured_[known->second].inherited && !one.inherited) known->second = i;
    Plane& plane = planes_[one.point.ragged];
    const Place place = place_of(one.point);
    if (one.met && *one.met < default_entries_.size()) plane.met[one.inherited][*one.met].add(place, i);
    if (one.entry == Cell::kNone) continue;
    has_winner_[one.point.ragged] = true;
    plane.any[one.inherited].add(place, i);
  }
  for (Plane& plane : planes_) {
    for (auto& by_default : plane.met) {
      for (NearestPoints& points : by_default) points.build();
    }
    for (NearestPoints& points : plane.any) points.build();
  }
}

DispatchTable::DispatchTable(Cell constant, const SpaceDefaults& defaults) : defaults_(defaults), constant_(constant) {}

Cell DispatchTable::find(const TablePoint& point, const Extents& extents) const {
  if (constant_) return *constant_;
  const ChoiceMemo::Key key = ChoiceMemo::key_of(point, extents);
  if (const std::optional<Cell> known = memo_.find(key)) return *known;
  const Cell cell = choose(point, extents);
  memo_.keep(key, cell);
  return cell;
}

Cell DispatchTable::choose(const TablePoint& point, const Extents& extents) const {
  const std::optional<std::uint32_t> here = defaults_.at(extents, point.ragged);
  const Cell by_default{here ? default_entries_[*here] : Cell::kNone, ChoiceKind::by_default};
  const Measured* const measured = measured_at(point);
  // Other extents at the same point may have another default.
  if (measured != nullptr && (measured->extents == extents || defaults_.at(measured->extents, point.ragged) == here)) {
    if (measured->entry != Cell::kNone) return {measured->entry, ChoiceKind::exact};
    if (by_default.entry != Cell::kNone) return by_default;
  }
  const Place place = place_of(point);
  if (const std::optional<std::uint32_t> by = deciding(point.ragged, place, here)) {
    const Measured& one = measured_[*by];
    if (one.is_clear && one.entry != Cell::kNone) return {one.entry, ChoiceKind::nearest};
  }
  if (by_default.entry != Cell::kNone) return by_default;
  return nearest_of_any(planes_[kind_of_any(point.ragged)], place);
}

std::optional<std::uint32_t> DispatchTable::deciding(bool ragged, const Place& place,
                                                     std::optional<std::uint32_t> number) const {
  if (!number) return std::nullopt;
  for (const auto& by_default : planes_[ragged].met) {
    if (const std::optional<std::uint32_t> found = by_default[*number].nearest(place, kReach)) return found;
  }
  return std::nullopt;
}

Cell DispatchTable::nearest_of_any(const Plane& plane, const Place& place) const {
  for (const double reach : {kReach, kAnywhere}) {
    for (const NearestPoints& points : plane.any) {
      if (const auto found = points.nearest(place, reach)) return {measured_[*found].entry, ChoiceKind::nearest};
    }
  }
  return {};
}

const DispatchTable::Measured* DispatchTable::measured_at(const TablePoint& point) const {
  const auto found = at_points_.find(point);
  return found != at_points_.end() ? &measured_[found->second] : nullptr;
}

void DispatchTable::visit_possible(const Region& region, const std::function<void(std::uint32_t entry)>& visit) const {
  if (constant_) return visit(constant_->entry);
  const bool ragged = region.first.ragged;
  const SpaceDefaults::Within possible = defaults_.within(region.low, region.high, ragged);
  const Place low = place_of(region.first), high = place_of(region.last);
  for (const Measured& one : measured_) {
    if (one.entry == Cell::kNone || one.point.ragged != ragged) continue;
    const Distances apart = distances(place_of(one.point), low, high);
    const bool may_serve =
        one.is_clear && one.met && std::ranges::find(possible.numbers, *one.met) != possible.numbers.end();
    if (apart.most <= (may_serve ? kReach : 0)) visit(one.entry);
  }
  bool is_missing = possible.none;
  for (const std::uint32_t number : possible.numbers) {
    is_missing = is_missing || default_entries_[number] == Cell::kNone;
    if (default_entries_[number] != Cell::kNone) visit(default_entries_[number]);
  }
  if (is_missing) visit_nearest(region, visit);
}

// Those that are nearest of any at some point of the region: no other one is nearer to all of it.
void DispatchTable::visit_nearest(const Region& region, const std::function<void(std::uint32_t entry)>& visit) const {
  const bool ragged = kind_of_any(region.first.ragged);
  const Place low = place_of(region.first), high = place_of(region.last);
  for (const bool inherited : {false, true}) {
    const auto is_of = [&](const Measured& one) {
      return one.entry != Cell::kNone && one.point.ragged == ragged && one.inherited == inherited;
    };
    double least = kAnywhere;
    for (const Measured& one : measured_) {
      if (is_of(one)) least = std::min(least, distances(place_of(one.point), low, high).farthest);
    }
    for (const Measured& one : measured_) {
      if (is_of(one) && distances(place_of(one.point), low, high).nearest <= least) visit(one.entry);
    }
  }
}

bool DispatchTable::is_empty() const {
  const auto serves = [](std::uint32_t entry) { return entry != Cell::kNone; };
  return !constant_ && std::ranges::none_of(measured_, serves, &Measured::entry) &&
         std::ranges::none_of(default_entries_, serves);
}

bool DispatchTable::operator==(const DispatchTable& other) const {
  return constant_ == other.constant_ && measured_ == other.measured_ && default_entries_ == other.default_entries_;
}

// Within half an octave, with one default, a point that decides at both ends decides between them, as the places that
// it is the nearest to lie together; if none is in reach of either end, none is between. What was measured on the line
// is looked at apart.
std::vector<CrossedCell> DispatchTable::cells_between(std::int64_t first, const Extents& to,
                                                      const std::function<TablePoint(const Extents&)>& point_of) const {
  const auto with_last = [&](std::int64_t last) {
    Extents extents = to;
    extents.back() = last;
    return extents;
  };
  const auto find_at = [&](std::int64_t last) { return find(point_of(with_last(last)), with_last(last)); };
  const bool ragged = point_of(to).ragged;
  const auto is_one_choice = [&](std::int64_t low, std::int64_t high) {
    if (constant_) return true;
    if (!(find_at(low) == find_at(high)) || !defaults_.within(with_last(low), with_last(high), ragged).is_one())
      return false;
    const std::optional<std::uint32_t> number = defaults_.at(with_last(low), ragged);
    const auto deciding_at = [&](std::int64_t last) {
      return deciding(ragged, place_of(point_of(with_last(last))), number);
    };
    return deciding_at(low) == deciding_at(high);
  };
  std::vector<CrossedCell> found;
  const std::function<void(std::int64_t, std::int64_t)> add = [&](std::int64_t low, std::int64_t high) {
    const bool is_short = static_cast<double>(high) <= static_cast<double>(low) * std::sqrt(2);
    if (low == high || (is_short && is_one_choice(low, high))) return found.push_back({find_at(low), high});
    const std::int64_t middle =
        is_short
            ? low + (high - low) / 2
            : std::clamp(static_cast<std::int64_t>(std::sqrt(static_cast<double>(low) * static_cast<double>(high))),
                         low, high - 1);
    add(low, middle);
    add(middle + 1, high);
  };
  std::vector<std::int64_t> ends;  // of measured points, and before them
  for (const Measured& one : measured_) {
    const std::int64_t at = one.extents.empty() ? 0 : one.point.position.back();
    if (at < first || at > to.back() || one.point != point_of(with_last(at))) continue;
    ends.push_back(at - 1);
    ends.push_back(at);
  }
  ends.push_back(to.back());
  std::ranges::sort(ends);
  for (const std::int64_t end : ends) {
    if (end < first) continue;
    add(first, end);
    first = end + 1;
  }
  return found;
}

}  // namespace moetune
