// One range search under way: searches of coarse cells, measurements of what they found in all other cells, and a
// certificate at random shapes. Each step commits what it measured. See range_job.h.
//
// Belongs to the job's thread; request and context must outlive it.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/range/cell_meter.h"
#include "jobs/range/job.h"
#include "jobs/range/picks.h"
#include "jobs/range/plan.h"
#include "jobs/range/solution.h"
#include "jobs/range/store.h"
#include "jobs/session/session.h"

namespace moetune {

class RangeSearch {
 public:
  RangeSearch(const RangeRequest& request, const JobContext& context);
  RangeResult run();

 private:
  using Clock = std::chrono::steady_clock;
  // Shares of the time at which a stage ends, so that the next ones have theirs.
  static constexpr double kSearchUntil = 0.35, kFillUntil = 0.82, kCertifyUntil = 0.97;

  // An earlier search's progress; empty if there is none, or if it is damaged (then with a warning).
  RangeState progress() const;
  void forget_untrue(RangeState& known) const;
  void restore_cells(const RangeState& known, bool goes_on);
  void resume();

  // The stages.
  void search();
  void fill();
  void certify();

  bool enter(std::size_t index);
  void enter(const Problem& problem);
  TuneResult tune_here(std::size_t budget, double until, bool is_cell);
  void search_cell(std::size_t index);
  std::vector<CellMeter::Hint> hints(std::size_t index, const std::vector<std::string>& cubins,
                                     std::size_t origins) const;
  void measure(std::size_t index, const std::vector<std::string>& cubins, const CellMeter::Effort& effort);
  void look(std::size_t index, const std::vector<std::string>& cubins);
  bool complete(std::size_t index, const std::vector<std::string>& cubins, double until);
  void take_into_pool(const MeasuredCell& cell);
  void choose_filled();

  void certify_once(const std::vector<Problem>& shapes);
  void add_shape(const Problem& problem);
  std::optional<std::string> served_at(const Problem& problem);  // nullopt if nothing serves

  void solve_again();
  const std::vector<RangePicks::Default>& defaults_of_range();
  const StoredLaunch& launch_of(const std::string& config, const Problem& problem);
  std::vector<StoredLaunch> launches();
  void commit();
  void store(RangeStore::Stage stage);
  std::size_t unreached() const;
  void take_winners();
  void finish();

  RangeKey key() const;
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  bool time_is_up(double share) const { return request_.time_s > 0 && elapsed() >= share * request_.time_s; }
  void report(std::string_view stage, std::size_t done, std::size_t planned) const;

  const RangeRequest& request_;
  const JobContext& context_;
  const Clock::time_point begin_ = Clock::now();
  Session session_;
  const Problem base_;
  RangePlan plan_;
  CellMeter meter_;
  RangeStore store_;
  RangeState state_;  // cells in the order of plan_
  RangeSolution solution_;
  std::optional<RangePicks> picks_;  // by solution_'s table, once something is asked
  std::optional<std::vector<RangePicks::Default>> defaults_;
  std::map<std::string, StoredLaunch> launches_;  // by cubin
  std::optional<Clock::time_point> stored_at_;
  std::set<std::string> entered_;  // problems
  RangeResult result_;
};

}  // namespace moetune
