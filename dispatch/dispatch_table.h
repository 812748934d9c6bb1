// Maps each problem of a family to the choice that serves it: even and ragged apart, by position on the kernel's axes
// (FamilyInterface::table_point) and by the default that the space has for the very problem.
//
// By one rule, so that equal results give equal choices everywhere:
//   - at a measured point its winner serves (of several the first in order), or the default if nothing beat it;
//   - elsewhere the nearest measured point decides that met the very default that the space has for the asked problem,
//     within kReach octaves on each axis: its winner serves if it beat that default by kMargin. What this hardware
//     measured goes before what is inherited;
//   - else that default serves, if its cubin is there;
//   - else the nearest measured point, of the same kind of work if there is one.
// So a winner serves no problem whose default it has not beaten. A choice is a pure function of the problem, computed
// when it is first asked for and remembered for a while.
//
// Immutable once built, but for what it remembers; thread-safe. find() takes no lock and allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dispatch/choice_memo.h"
#include "dispatch/nearest_points.h"
#include "kernels/family_interface.h"

namespace moetune {

// The defaults of a family's space, as numbers. Implementations are thread-safe, and at() allocates nothing.
class SpaceDefaults {
 public:
  virtual ~SpaceDefaults() = default;
  // nullopt if none can run.
  virtual std::optional<std::uint32_t> at(const Extents& extents, bool ragged) const = 0;
  struct Within {
    std::vector<std::uint32_t> numbers;  // each once
    bool none = false;                   // somewhere there may be no default
    bool is_one() const { return numbers.size() + (none ? 1 : 0) == 1; }
  };
  // Those of all extents from `low` to `high`, and maybe others; what at() returns if the two are equal.
  virtual Within within(const Extents& low, const Extents& high, bool ragged) const = 0;
};

// A cell that a range of the last extent falls into, and the last such extent in both.
struct CrossedCell {
  Cell cell;
  std::int64_t last = 0;
};

// From the lowest to the highest position of some points on each axis, even and ragged work apart.
class PointHull {
 public:
  void add(const TablePoint& point);
  bool holds(const TablePoint& point) const;

 private:
  struct Sides {
    TablePoint low, high;
  };
  std::vector<Sides> of_kinds_;
};

class DispatchTable {
 public:
  // Chosen on held-out cells (docs/ranges.md).
  static constexpr double kReach = 0.5;    // octaves on each axis
  static constexpr double kMargin = 0.03;  // of the winner's time

  // Whether a winner may serve around its own point.
  static bool is_clear_win(double time_us, double default_us) {
    return default_us > 0 && time_us > 0 && time_us * (1 + kMargin) <= default_us;
  }

  struct Measured {
    TablePoint point;
    std::uint32_t entry = Cell::kNone;  // without one the default serves at the point
    std::optional<std::uint32_t> met;   // number of the default there; nullopt: it decides its own point alone
    bool is_clear = false;              // the winner beat that default by kMargin, so it serves around the point
    bool inherited = false;             // of other hardware
    Extents extents;                    // at which it was measured
    bool operator==(const Measured&) const = default;
  };

  // `default_entries` by number: kNone if its cubin is not there. `defaults` must outlive the table.
  DispatchTable(std::vector<Measured> measured, std::vector<std::uint32_t> default_entries,
                const SpaceDefaults& defaults);
  // One cell for everything.
  DispatchTable(Cell constant, const SpaceDefaults& defaults);

  // `point` is where work of these extents lies.
  Cell find(const TablePoint& point, const Extents& extents) const;

  // Visits, each once or more, every entry that find() may return for extents from `low` to `high`, whose points are
  // of one kind and from `first` to `last` on each axis; maybe others too.
  struct Region {
    Extents low, high;
    TablePoint first, last;
  };
  void visit_possible(const Region& region, const std::function<void(std::uint32_t entry)>& visit) const;

  // The cells that extents fall into whose last one is from `first` on up to that of `to`, in order.
  std::vector<CrossedCell> cells_between(std::int64_t first, const Extents& to,
                                         const std::function<TablePoint(const Extents&)>& point_of) const;

  // nullptr if nothing was measured at this very point.
  const Measured* measured_at(const TablePoint& point) const;
  const std::optional<Cell>& constant() const { return constant_; }
  std::span<const Measured> measured() const { return measured_; }
  std::span<const std::uint32_t> default_entries() const { return default_entries_; }
  // Whether any problem has a choice.
  bool is_empty() const;
  // Tables that are equal choose alike.
  bool operator==(const DispatchTable& other) const;

 private:
  struct PointHash {
    std::size_t operator()(const TablePoint& point) const;
  };
  // The measured points of one kind of work: of this hardware, and inherited.
  struct Plane {
    std::vector<NearestPoints> met[2];  // by the default that they met
    NearestPoints any[2];               // that have a winner
  };

  Cell choose(const TablePoint& point, const Extents& extents) const;
  // The nearest point that met default `number`, into measured_.
  std::optional<std::uint32_t> deciding(bool ragged, const Place& place, std::optional<std::uint32_t> number) const;
  // The kind of work whose winners serve where there is no default: its own, if it has any.
  bool kind_of_any(bool ragged) const { return has_winner_[ragged] ? ragged : !ragged; }
  Cell nearest_of_any(const Plane& plane, const Place& place) const;
  void visit_nearest(const Region& region, const std::function<void(std::uint32_t entry)>& visit) const;

  const SpaceDefaults& defaults_;
  std::optional<Cell> constant_;
  std::vector<Measured> measured_;
  std::vector<std::uint32_t> default_entries_;
  std::unordered_map<TablePoint, std::uint32_t, PointHash> at_points_;  // into measured_
  Plane planes_[2];                                                     // even, ragged
  bool has_winner_[2] = {};
  mutable ChoiceMemo memo_;
};

}  // namespace moetune
