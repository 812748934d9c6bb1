// One range search under way: the stages, each of which commits what it measured. See range_job.h.
//
// Belongs to the job's thread; request and context must outlive it. range_resume.cc begins with what an earlier search
// left, range_search.cc measures cells, range_repair.cc what a table lacks that does not keep its bound,
// range_unseen.cc unseen shapes; range_job.cc brings it to its end.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/cell_meter.h"
#include "jobs/range_job.h"
#include "jobs/range_picks.h"
#include "jobs/range_plan.h"
#include "jobs/range_solution.h"
#include "jobs/range_store.h"
#include "jobs/range_variants.h"
#include "jobs/session/session.h"

namespace moetune {

class RangeSearch {
 public:
  RangeSearch(const RangeRequest& request, const JobContext& context);
  RangeResult run();

 private:
  using Clock = std::chrono::steady_clock;
  // Cells are searched until so many in sequence brought no new cubin.
  static constexpr std::size_t kIdleSearches = 8, kLeastSearches = 16;
  // Shares of the time at which a stage ends, so that the next ones have theirs.
  static constexpr double kSearchesUntil = 0.22, kPoolUntil = 0.3, kSearchedOnUntil = 0.45, kFillUntil = 0.64,
                          kRepairUntil = 0.66, kWavesUntil = 0.73, kRefiningUntil = 0.79, kAcrossUntil = 0.82,
                          kAbsorbedUntil = 0.9, kShapesUntil = 0.97, kContestUntil = 1.1;

  RangeState progress() const;
  void forget_untrue(RangeState& known) const;
  void restore_cells(const RangeState& known, bool goes_on);
  void resume();
  bool enter(std::size_t index);
  void enter(const Problem& problem);
  void search_cells(double until, bool all);
  void search_cell(std::size_t index, double until);
  void measure(std::size_t index, const std::vector<std::string>& cubins, const CellMeter::Effort& effort);
  void take_into_pool(const RangeCellState& cell);
  void look(std::size_t index, const std::vector<std::string>& cubins, const CellMeter::Effort& effort);
  bool has_untried(std::size_t index);
  bool complete(std::size_t index, const std::vector<std::string>& cubins, double until);
  void try_relatives(double until);
  void complete_pool(double until);
  std::vector<std::string> cubins_of_defaults() const;
  void choose_filled();
  std::vector<std::string> measured_everywhere() const;
  void fill();
  void search_on();
  void complete_cover(double until);
  void repair(double until);
  void cross();
  std::size_t take_new_cells();
  // Cells of refinement and of shapes that lost too much.
  std::size_t added() const {
    const std::size_t all = plan_.cells().size() - planned_at_first_;
    return all - std::min(all, state_.steps);
  }
  int waves_there(std::size_t index, const Problem& problem) const;
  void follow_waves();
  bool refine_once(double until);
  void refine(double until);
  void measure_contended();
  void forget_shapes_of_older_table();
  void certify();
  void certify_until_sound();
  void certify_once(const std::vector<Problem>& shapes);
  void spread();
  bool absorb();
  std::vector<Problem> unseen(std::size_t count) const;
  void add_shape(const Problem& problem);
  // What the table launches at a problem; nullopt if it has no cells.
  std::optional<std::string> served_at(const Problem& problem);
  void withdraw(const std::string& config);
  const std::vector<RangePicks::Default>& defaults_of_range();
  TuneResult tune_here(std::size_t budget, double until, bool is_cell);
  void commit();
  void store(RangeStore::Stage stage);
  void solve_again();
  ContestRatio ratio_to_standing(const RangeCell& cell);
  std::size_t unreached() const;
  void take_winners();
  void finish();
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  bool time_is_up(double share) const { return request_.time_s > 0 && elapsed() >= share * request_.time_s; }
  void report(std::string_view stage, std::size_t done, std::size_t planned) const;
  RangeKey key() const;

  const RangeRequest& request_;
  const JobContext& context_;
  const Clock::time_point begin_ = Clock::now();
  Session session_;
  const Problem base_;
  RangePlan plan_;
  CellMeter meter_;
  RangeVariants variants_;
  RangeStore store_;
  RangeState state_;                    // cells in the order of plan_
  std::vector<std::string> relatives_;  // cubins of the kernel's other tables
  RangeSolution solution_;
  std::optional<RangePicks> picks_;  // by solution_'s table, once something is asked
  std::optional<std::vector<RangePicks::Default>> defaults_;
  RangeNeighbours neighbours_;  // of so many cells as it has
  // Choices of the state that was resumed, until the certificate is looked at again.
  std::optional<std::vector<RangePick>> resumed_picks_;
  std::optional<Clock::time_point> stored_at_;
  std::size_t planned_at_first_ = 0;  // cells of the grids, and those taken over
  std::set<std::string> entered_;     // problems
  RangeResult result_;
};

}  // namespace moetune
