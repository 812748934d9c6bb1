// Plans the problems that a range search measures: the cells of a coarse and of a finer grid, for even and for ragged
// work, and random shapes outside these cells.
//
// Deterministic in what it is made from, which must outlive it. Not thread-safe.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "jobs/session/session.h"
#include "ranges/grid.h"

namespace moetune {

struct PlannedProblem {
  Problem problem;
  GridPoint position;  // in the family's dispatch table
  bool ragged = false;
};

class RangePlan {
 public:
  static constexpr double kOctaves = 2;  // at most, between neighbours of the coarse grid

  // Plans the cells of the coarse grid. Throws BadField (over).
  RangePlan(const Session& session, const Problem& base, const std::string& over);

  const std::vector<DimensionRange>& ranges() const { return ranges_; }
  const std::vector<PlannedProblem>& cells() const { return cells_; }  // in the order in which to measure them
  // Problems and ends of ranges, with reasons.
  const std::vector<std::string>& left_out() const { return left_out_; }
  std::size_t coarse() const { return coarse_; }  // cells of the coarse grid, the first ones

  // Adds the cells of the finer grid, those that are farthest from the others first; kMostCells in all.
  void fill();
  PlannedProblem cell_of(const Problem& problem) const;
  // A cell that an earlier search measured, if it lies within the ranges, the device still serves it, and a table has
  // room for it.
  void restore(const std::string& problem);
  // Whether an earlier search that planned this cell had equal values of the dimensions that are not ranges.
  bool is_of_base(const std::string& problem) const;
  const FamilyInterface& interface() const { return *interface_; }
  // Random problems within the ranges that are no cells, but for those of `keep`; the first of one sequence.
  std::vector<Problem> unseen(std::size_t count, std::uint64_t seed, const std::set<std::string>& keep = {}) const;

 private:
  std::vector<std::int64_t> coordinates_of(std::size_t axis, double octaves);
  std::vector<std::int64_t> merge_equal_places(std::size_t axis, const std::vector<std::int64_t>& coordinates);
  std::int64_t measured_coordinate(std::size_t axis, const GridPoint& position,
                                   const std::vector<std::int64_t>& coordinates);
  void note_impossible_ends(const std::vector<GridPoint>& points);
  GridPoint values_of(const Problem& problem) const;     // of the ranges
  bool is_within(const Problem& problem) const;          // the ranges
  bool has_fixed_extents(const Problem& problem) const;  // those of the base, but for the ranges' dimensions
  bool is_recorded(const Problem& problem) const;        // a recorded problem within the ranges
  std::string recorded_text() const;
  std::string why_empty() const;
  // The nearest of `among`, of the same kind if there is one.
  std::optional<std::size_t> nearest(const PlannedProblem& to, const std::vector<PlannedProblem>& among) const;
  // The problem at values of the ranges; nullopt if the kernel has none, or the device cannot hold it.
  std::optional<Problem> problem_at(const GridPoint& values, bool ragged);
  // nullopt also if it is of the other kind; `why_none` gets what the kernel refuses.
  std::optional<Problem> problem_of_kind(const GridPoint& values, bool ragged, std::string* why_none = nullptr) const;
  // The same; a ragged problem is the one that lies at, or nearest to, the table position of the even one of `values`.
  std::optional<Problem> problem_for(const GridPoint& values, bool ragged) const;
  bool fits(const Problem& problem) const;
  // Whether the grid stays coarser. Recorded shapes are few, and some must be left for the certificate.
  bool leaves_shapes() const { return session_.recording() != nullptr; }
  bool is_planned(const Problem& problem) const;
  // Whether a cell has this one's place in a table, though it may be another problem (of another tensor-parallel
  // degree).
  bool is_taken(const PlannedProblem& cell) const;
  // On a recording: the nearest recorded problem of the kind; else the problem itself.
  std::optional<Problem> served(const Problem& problem) const;
  void add(const GridPoint& values, bool ragged);

  const Session& session_;
  const Kernel& kernel_;
  const Assignment specialization_;
  const Extents base_;
  std::vector<DimensionRange> ranges_;
  std::vector<std::size_t> places_;     // of the ranges among the extents
  std::optional<std::size_t> counted_;  // the range of the kernel's first free dimension
  std::unique_ptr<const FamilyInterface> interface_;
  // Several of a range's values that are one place in the table, at `position` on all axes but the first, which counts
  // what blocks are made of; all are measured at `coordinate`.
  struct OnePlace {
    std::size_t axis = 0;
    GridPoint position;
    std::int64_t coordinate = 0;
  };
  std::vector<OnePlace> one_place_;
  std::vector<Problem> recorded_;  // of the family, within the ranges
  std::vector<PlannedProblem> cells_;
  std::size_t coarse_ = 0;
  std::vector<std::string> left_out_;
};

}  // namespace moetune
