// Which choice serves which cell of a family's free dimensions: a grid for even work and one for uneven, whose axes are
// the kernel's (FamilyInterface::table_point). Their coordinates are those of the measured problems of that kind and
// half octaves (with three axes: octaves) between and around them, but none between those of a range table, so that
// each of its cells reaches half-way, by ratio, to its neighbours, as every cell does. Where a range table expects
// choices, its coordinates are those of their grid.
//
// Filled by one rule (DispatchTable::build), so that equal results give equal tables everywhere:
//   - a measured cell holds its winner (of several for one cell the nearest to its coordinates, then the first in
//     order);
//   - another cell holds the choice of the nearest measured one, by the sum of squared log2 ratios, if their root mean
//     square over the axes is within kReach, and if the space's default is the same here as there, and was when that
//     was measured: the winner is known to be faster than that default, and of another one nothing is known;
//   - between the cells of a range table its expected choice serves, if there is one, else the nearest of its cells,
//     whatever the default is: the table says how much is lost there;
//   - else the space's default for the cell's own problem, if its cubin is there; else the nearest.
// Far from everything measured cells are four times as wide, from 1 to 64 times the last coordinate.
// Even and uneven work have cells of their own, and a winner serves its own kind: measured on full batches, winners
// lost up to 36% to the default on ragged ones. One of the other kind serves only if there is no default.
//
// Immutable once built; thread-safe. find() allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kernels/family_interface.h"
#include "ranges/expected_choices.h"

namespace moetune {

enum class ChoiceKind : std::uint8_t { exact, nearest, fallback, pinned };

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

class DispatchTable {
 public:
  static constexpr std::size_t kMaxCoordinates = 128;  // an axis; more are thinned out evenly
  static constexpr std::size_t kMaxOfThree = 32;       // the same of each of three axes
  // In powers of two: a little more than from a cell to the middle between cells two powers apart on each axis.
  static constexpr double kReach = 1.07;

  // Without an entry the point has a coordinate, and nothing serves because of it.
  struct Measured {
    TablePoint point;
    std::uint32_t entry = Cell::kNone;
    bool of_range = false;  // of a range table: between its cells the nearest serves, whatever the default is
    bool met_default = true;  // it was measured against the default that the space has there today
    bool inherited =
        false;  // of other hardware: what this one has measured goes before it, as far as that reaches
  };
  // The space's default at some point: its entry, kNone if its cubin is not there, and a number for its configuration.
  struct Default {
    std::uint32_t config = 0;
    std::uint32_t entry = Cell::kNone;
  };
  using DefaultAt = std::function<std::optional<Default>(const TablePoint& point)>;

  // The grid of a family: `axes` positions a point, and cells for uneven work if there can be any.
  struct Grid {
    std::size_t axes = 0;
    bool has_uneven = false;
  };

  // Without measured points and defaults every cell is empty. Where there is no default, all count as the same. The
  // choices of `expected` are entries.
  static DispatchTable build(std::span<const Measured> measured, const Grid& grid,
                             const DefaultAt& default_at, std::span<const ExpectedGrid> expected = {});
  // One cell for everything, of a family whose points have so many positions.
  static DispatchTable constant(Cell cell, std::size_t axes);

  const Cell& find(const TablePoint& point) const {
    const Plane& plane = plane_of(point);
    std::size_t index = plane.first;
    for (std::size_t axis = 0; axis < plane.axes.size(); ++axis)
      index += plane.strides[axis] * position(plane.axes[axis], point.position[axis]);
    return cells_[index];
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

  std::span<const Cell> cells() const { return cells_; }
  std::string axes_text() const;

 private:
  // A coordinate's cell ends at `ends`, inclusive; the last one has no end.
  struct Axis {
    std::vector<std::int64_t> coordinates;
    std::vector<std::int64_t> ends;  // one less than coordinates
  };
  // The grid of one kind of work. The last axis has stride 1.
  struct Plane {
    bool uneven = false;
    std::vector<Axis> axes;
    std::vector<std::size_t> strides;
    std::size_t first = 0;  // of its cells
    std::size_t size = 1;

    TablePoint point_of(std::size_t index) const;
    // The greatest point of a cell that is at most `most`; nullopt if all of it is past that.
    std::optional<TablePoint> corner_within(std::size_t index, const TablePoint& most) const;
  };

  const Plane& plane_of(const TablePoint& point) const {
    return planes_[point.uneven ? planes_.size() - 1 : 0];
  }
  static Plane make_plane(std::span<const Measured> measured, const ExpectedGrid* expected, std::size_t axes,
                          bool uneven);
  static std::size_t position(const Axis& axis, std::int64_t value);
  // The coordinates that a range table spans on an axis; an empty span (first > last) without one.
  struct Span {
    std::int64_t first = 1, last = 0;
  };
  static Axis make_axis(std::vector<std::int64_t> values, std::size_t axes, const Span& of_range);

  std::vector<Plane> planes_;  // one serves both kinds, or even work's and uneven work's
  std::vector<Cell> cells_;
};

}  // namespace moetune
