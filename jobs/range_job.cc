#include "jobs/range_job.h"

#include <algorithm>

#include "base/error.h"
#include "jobs/range_search.h"
#include "jobs/served_ranges.h"
#include "tuner/trial_record.h"

namespace moetune {

void RangeSearch::solve_again() {
  if (neighbours_.size() != plan_.cells().size()) neighbours_ = neighbours_of(plan_.cells());
  solution_ = solve(state_, request_.regret, request_.variants, neighbours_);
  picks_.reset();
  // What an earlier search saw at unseen shapes is of its choices.
  if (resumed_picks_ && *resumed_picks_ != solution_.picks) solution_.table.certificate = {};
}

// Of short trials, which are in the cache already: what comes within a second of the last time costs no measuring if it
// is lost.
void RangeSearch::commit() {
  solve_again();
  if (!stored_at_ || Clock::now() - *stored_at_ > std::chrono::seconds(1))
    store(RangeStore::Stage::under_way);
}

void RangeSearch::store(RangeStore::Stage stage) {
  Provenance made = provenance_of(request_.settings.strategy, request_.settings.seed, session_.info());
  if (session_.kernel() != nullptr && !solution_.table.cells.empty()) {
    made.judged = judged_of_ranges(*session_.kernel(), served_ranges(*session_.kernel(), solution_.table),
                                   base_, key().hardware);
  }
  store_.put(state_, solution_, {variants_.of(solution_.table, defaults_of_range()), provenance_text(made)},
             stage);
  stored_at_ = Clock::now();
}

ContestRatio RangeSearch::ratio_to_standing(const RangeCell& cell) {
  if (time_is_up(kContestUntil)) return {.out_of_time = true};
  std::optional<std::string> served;
  try {
    const Problem problem = parse_problem(key().kernel, session_.kernel()->schema(), nullptr, cell.problem);
    session_.move_to(problem);
    session_.space_file()->parse_config(cell.config);
    served = served_at(problem);
  } catch (const BadInput&) {  // of other sources, or a recording that is gone
  } catch (const TooLittleMemory&) {
  }
  if (!served) return {};
  const std::string& pick = *served;
  if (pick == cell.config) return {.ratios = {1, 1}};
  meter_.begin(false);
  ContestRatio met;
  for (const bool is_new_first : {true, false}) {
    const std::vector<std::string> pair =
        is_new_first ? std::vector{pick, cell.config} : std::vector{cell.config, pick};
    const std::vector<double> times = meter_.duel(pair, met.contended);
    if (times[0] == 0 || times[1] == 0) return {.contended = met.contended};
    met.ratios.push_back(is_new_first ? times[0] / times[1] : times[1] / times[0]);
  }
  return met;
}

// Cells that were neither measured nor found to be out of reach. If the searches found nothing that is valid, no time
// would reach the others.
std::size_t RangeSearch::unreached() const {
  if (state_.cubins.empty() && state_.idle >= std::min(kLeastSearches, plan_.coarse())) return 0;
  return static_cast<std::size_t>(std::ranges::count_if(state_.cells, [](const RangeCellState& cell) {
    return !cell.is_measured() && cell.unreachable.empty();
  }));
}

void RangeSearch::take_winners() {
  WorkloadKey key = session_.key();
  for (const RangeCellState& cell : state_.cells) {
    if (!cell.searched) continue;
    key.problem = cell.problem;
    try {
      const auto workload = session_.cache()->find_workload(key);
      const auto winner =
          workload ? session_.cache()->winner(*workload, WinnerParts::without_cubins) : std::nullopt;
      if (winner) result_.winners.push_back({cell.problem, winner->config, parse_timings(winner->timings)});
    } catch (const DamagedWinner&) {  // `cache check` names it
    }
  }
}

void RangeSearch::finish() {
  result_.out_of_time = request_.time_s > 0 && (unreached() > 0 || time_is_up(kShapesUntil));
  const bool is_complete = !result_.interrupted && !result_.out_of_time;
  solve_again();
  store(is_complete           ? RangeStore::Stage::complete
        : result_.interrupted ? RangeStore::Stage::under_way
                              : RangeStore::Stage::time_is_up);
  result_.stored = store_.is_stored();
  result_.subject = session_.subject();
  result_.timing = session_.key().timing;
  result_.family = key().family;
  result_.ranges = state_.ranges;
  result_.planned = plan_.cells().size();
  result_.left_to_default = solution_.left_to_default;
  result_.left_out = plan_.left_out();
  for (const RangeCellState& cell : state_.cells) {
    if (!cell.unreachable.empty()) result_.left_out.push_back(cell.problem + ": " + cell.unreachable);
  }
  result_.table = solution_.table;
  result_.unseen = state_.shapes;
  result_.cubins = solution_.cubins;
  take_winners();
  result_.wall_s = elapsed();
}

RangeResult RangeSearch::run() {
  resume();
  try {
    search_cells(kSearchesUntil, false);
    try_relatives(kPoolUntil);
    complete_pool(kPoolUntil);
    fill();
    search_on();
    repair(kRepairUntil);
    follow_waves();
    refine(kRefiningUntil);
    cross();
    refine(kAcrossUntil);  // what was tried across may say more
    complete_cover(kAcrossUntil);
    repair(kAcrossUntil);
    measure_contended();
    spread();
    certify();
    result_.contest =
        store_.meet(solution_, [this](const RangeCell& cell) { return ratio_to_standing(cell); });
  } catch (const Stopped&) {
    result_.interrupted = true;
  }
  finish();
  context_.events.emit(Finished{result_.interrupted});
  return std::move(result_);
}

RangeResult search_range(const RangeRequest& request, const JobContext& context) {
  if (request.target.cache.none)
    throw BadField("no_cache", "a range keeps its measurements and its table in the cache");
  return RangeSearch(request, context).run();
}

}  // namespace moetune
