// Maps each problem of a family to the choice that serves it: even and ragged apart, by position on the kernel's axes
// (FamilyInterface::table_point).
//
// Filled by one rule (DispatchTable::build), so that equal results give equal tables everywhere:
//   - at a measured point its winner serves (of several the first in order), or the default where nothing beat it;
//   - elsewhere the nearest measured point within kReach octaves on each axis serves, if its winner beat the very
//     default that the space has here, by kMargin. What this hardware measured goes before what is inherited;
//   - else the space's default serves, if its cubin is there;
//   - else the nearest measured point, of the same kind of work if there is one.
// So a winner serves nothing whose default it has not beaten. The positions are cut into boxes: an octave or more where
// nothing was measured, kBoxOctaves near what was, and further where the default changes within a box, at the very
// position if it changes along one axis.
//
// Immutable once built; thread-safe. find() allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/family_interface.h"

namespace moetune {

enum class ChoiceKind : std::uint8_t { exact, nearest, by_default, pinned };

struct Cell {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  std::uint32_t entry = kNone;  // into the family's entries
  ChoiceKind kind = ChoiceKind::nearest;
  bool operator==(const Cell&) const = default;
};

// A cell that a range of the last axis falls into, and the last position in both.
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
  static constexpr double kBoxOctaves = 0.25, kBoxOctavesOfThree = 0.5;

  // Whether a winner may serve around its own point.
  static bool is_clear_win(double time_us, double default_us) {
    return default_us > 0 && time_us > 0 && time_us * (1 + kMargin) <= default_us;
  }

  struct Measured {
    TablePoint point;
    std::uint32_t entry = Cell::kNone;  // without one the default serves at the point
    // The number of the default's configuration that it beat by kMargin; nullopt: it serves its own point alone.
    std::optional<std::uint32_t> beat;
    bool inherited = false;  // of other hardware
  };
  // The space's default at some point: a number for its configuration, and its entry, kNone if its cubin is not there.
  struct Default {
    std::uint32_t config = 0;
    std::uint32_t entry = Cell::kNone;
    bool operator==(const Default&) const = default;
  };
  // nullopt: no problem lies there, or it has no default.
  using DefaultAt = std::function<std::optional<Default>(const TablePoint& point)>;

  // The grid of a family: `axes` positions a point, and cells for ragged work if there can be any.
  struct Grid {
    std::size_t axes = 0;
    bool has_ragged = false;
  };

  // Without measured points and defaults every cell is empty. Where no default is known, what serves a point of another
  // unknown default serves too.
  static DispatchTable build(std::span<const Measured> measured, const Grid& grid,
                             const DefaultAt& default_at);
  // One cell for everything, of a family whose points have so many positions.
  static DispatchTable constant(Cell cell, std::size_t axes);

  const Cell& find(const TablePoint& point) const {
    std::uint32_t at = roots_[point.ragged ? roots_.size() - 1 : 0];
    while (nodes_[at].axis != Node::kLeaf)
      at = point.position[nodes_[at].axis] <= nodes_[at].last ? at + 1 : nodes_[at].above;
    const Box& box = boxes_[nodes_[at].above];
    for (std::uint32_t i = box.first_point; i < box.end_points; ++i) {
      if (is_same(points_[i].position, point.position)) return cells_[boxes_.size() + i];
    }
    return cells_[nodes_[at].above];
  }

  // Calls `visit` for every cell that holds a point of at most `most` on every axis, of both kinds of work,
  // with the greatest such point in it.
  void visit_within(const TablePoint& most,
                    const std::function<void(const Cell& cell, const TablePoint& corner)>& visit) const;
  // Before the table is shared: gives such cells another choice.
  void replace_within(const TablePoint& most,
                      const std::function<Cell(const Cell& cell, const TablePoint& corner)>& replace);
  // The cells that the points from `from` to `last` on the last axis fall into, in order.
  std::vector<CrossedCell> cells_between(const TablePoint& from, std::int64_t last) const;

  std::span<const Cell> cells() const { return cells_; }  // of the boxes, then of the measured points
  std::string text() const;                               // of where the cells lie

 private:
  friend class TableBuilder;

  // A split of the positions of an axis; what is at most `last` goes to the next node. A leaf's `above` is its box.
  struct Node {
    static constexpr std::uint8_t kLeaf = 0xff;
    std::int64_t last = 0;
    std::uint32_t above = 0;
    std::uint8_t axis = kLeaf;
  };
  // From the lowest to the highest position on each axis; points_ in it have cells of their own.
  struct Box {
    TablePoint low, high;
    std::uint32_t first_point = 0, end_points = 0;
  };
  static bool is_same(const FixedVector<std::int64_t, 3>& a, const FixedVector<std::int64_t, 3>& b) {
    for (std::size_t axis = 0; axis < a.size(); ++axis) {
      if (a[axis] != b[axis]) return false;
    }
    return true;
  }
  const Box& box_of(const TablePoint& point) const;
  void visit(const TablePoint& most,
             const std::function<void(std::size_t cell, const TablePoint& corner)>& visit) const;

  std::vector<std::uint32_t> roots_;  // one for both kinds of work, or even work's and ragged work's
  std::vector<Node> nodes_;
  std::vector<Box> boxes_;
  std::vector<TablePoint> points_;  // measured, box by box
  std::vector<Cell> cells_;
};

}  // namespace moetune
