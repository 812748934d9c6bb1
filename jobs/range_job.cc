#include "jobs/range_job.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "cache/ranges.h"
#include "jobs/cell_meter.h"
#include "jobs/range_contest.h"
#include "jobs/range_hints.h"
#include "jobs/range_plan.h"
#include "jobs/range_refinement.h"
#include "jobs/session.h"
#include "tuner/history.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

using RangeClock = std::chrono::steady_clock;
// Shares of the time at which a stage ends, so that the next ones have theirs.
constexpr double kCellsUntil = 0.7, kRefiningUntil = 0.8, kShapesUntil = 0.97;
// A cubin joins those that are measured everywhere if it is faster somewhere by this share of the bound.
constexpr double kWorthwhile = 0.5;

class RangeSearch {
 public:
  RangeSearch(const RangeRequest& request, const JobContext& context)
      : request_(request),
        context_(context),
        session_(choose_family_device(request.target.device, request.target.workload),
                 {.cache = request.target.cache,
                  .no_compile = request.no_compile,
                  .threads = request.threads,
                  .timing = request.settings.policy.timing},
                 context.events),
        base_(problem_of(*session_.kernel(), request.target.workload)),
        plan_(session_, base_, request.over, request.octaves),
        meter_(session_, request_.settings, context_) {}

  RangeResult run();

 private:
  void resume();
  RangeCellState& state_of(const Problem& problem);
  void enter(const Problem& problem);
  void measure_cells();
  void complete_cells(double until);
  void refine();
  void certify();
  void search_cell(std::size_t index);
  void measure_cell(std::size_t index, const std::string& also);
  void add_shape(const Problem& problem);
  std::optional<std::string> pick_for(const Problem& problem) const;
  TuneResult tune_here(std::size_t budget, double until, bool is_cell);
  void commit();
  void meet_standing();
  std::optional<double> ratio_to_standing(const RangeCell& cell);
  std::vector<StoredLaunch> variants();
  const StoredLaunch& launch_of(const RangeCell& cell);
  double elapsed() const { return std::chrono::duration<double>(RangeClock::now() - begin_).count(); }
  bool time_is_up(double share) const { return request_.time_s > 0 && elapsed() >= share * request_.time_s; }
  void report(std::string_view stage, std::size_t done, std::size_t planned) const;
  RangeKey key() const;
  const RangeRequest& request_;
  const JobContext& context_;
  const RangeClock::time_point begin_ = RangeClock::now();
  Session session_;
  const Problem base_;
  RangePlan plan_;
  CellMeter meter_;
  RangeState state_;  // cells in the order of plan_
  RangeSolution solution_;
  std::map<std::string, StoredLaunch> launches_;  // by cubin
  std::size_t planned_at_first_ = 0;              // cells before any was refined
  std::set<std::string> entered_;                 // problems
  std::optional<StandingTable> standing_;         // that must be beaten before it goes
  RangeResult result_;
};

RangeKey RangeSearch::key() const {
  const WorkloadKey& workload = session_.key();
  return {workload.kernel,    session_.kernel()->specialization(base_).text(),
          workload.hardware,  workload.source_digest,
          workload.toolchain, workload.timing};
}

RangeCellState& RangeSearch::state_of(const Problem& problem) {
  const auto known = std::ranges::find(state_.cells, problem.text(), &RangeCellState::problem);
  if (known != state_.cells.end()) return *known;
  return state_.cells.emplace_back(RangeCellState{.problem = problem.text()});
}

// What an earlier search of this range left. Cells of a grid that is no longer asked for are left out.
void RangeSearch::resume() {
  RangeState known;
  try {
    const std::string text = request_.settings.fresh ? "" : session_.cache()->range_progress(key());
    if (!text.empty()) known = RangeState::parse(text);
  } catch (const BadInput& error) {
    context_.events.emit(Warning{WarningKind::history_left_out, error.what()});
  }
  if (request_.guard) standing_ = find_standing(*session_.cache(), key());
  state_.ranges = ranges_text(plan_.ranges());
  state_.cubins = known.cubins;
  if (known.ranges == state_.ranges) state_.shapes = known.shapes;
  planned_at_first_ = plan_.cells().size();
  if (known.ranges == state_.ranges) {
    for (const RangeCellState& cell : known.cells) plan_.restore(cell.problem);
    for (const UnseenShape& shape : known.shapes) {
      if (request_.absorb && shape.pick_us > shape.best_us * (1 + request_.regret))
        plan_.restore(shape.problem);
    }
  }
  for (const PlannedCell& cell : plan_.cells()) {
    const std::string text = cell.problem.text();
    const auto found = std::find_if(known.cells.begin(), known.cells.end(), [&](const RangeCellState& one) {
      return one.problem == text && !one.contended;
    });
    state_.cells.push_back(found != known.cells.end() ? *found : RangeCellState{.problem = text});
  }
  solution_ = solve(state_, request_.regret, request_.variants);
}

void RangeSearch::report(std::string_view stage, std::size_t done, std::size_t planned) const {
  const double left = request_.time_s > 0 ? std::max(0.0, request_.time_s - elapsed()) : 0;
  context_.events.emit(
      RangeAdvanced{stage, done, planned, solution_.cover.cubins.size(), solution_.table.worst_cell(), left});
}

// A fresh search measures every problem anew: a search that is told its earlier trials has no budget left for others.
// The trials of problems that come later stay until then, as experience.
void RangeSearch::enter(const Problem& problem) {
  session_.move_to(problem);
  const bool is_first = entered_.insert(problem.text()).second;
  if (!request_.settings.fresh || !is_first) return;
  if (const auto known = session_.cache()->find_workload(session_.key()))
    session_.cache()->clear_trials(*known);
}

// A cell's winner is stored with its times under all timings.
TuneResult RangeSearch::tune_here(std::size_t budget, double until, bool is_cell) {
  TuneSettings settings = request_.settings;
  settings.budget = budget;
  settings.fresh = false;
  settings.all_timings = is_cell;
  if (request_.time_s > 0) settings.time_budget_s = std::max(0.1, until * request_.time_s - elapsed());
  TuneRequest tuning = session_.request(settings);
  const TransferContext transfer{session_.kernel(), session_.space_file(), session_.info().limits};
  tuning.histories = histories_for(*session_.cache(), session_.key(), session_.space(), &transfer);
  TuneResult found = session_.tune(tuning, context_.stop);
  if (found.interrupted) throw Stopped();
  return found;
}

// All cubins of the pool, and `also` one more, which joins them if it is worth it.
void RangeSearch::measure_cell(std::size_t index, const std::string& also) {
  RangeCellState& cell = state_.cells[index];
  std::vector<std::string> cubins = state_.cubins;
  if (!also.empty() && std::find(cubins.begin(), cubins.end(), also) == cubins.end()) cubins.push_back(also);
  meter_.measure(nearest_hints(cubins, plan_.cells()[index], plan_.cells(), state_), cell);
  ++result_.measured;
  double pool = std::numeric_limits<double>::infinity(), best = pool;
  std::string fastest;
  for (const auto& [name, measured] : cell.cubins) {
    if (measured.config.empty()) continue;
    if (std::find(state_.cubins.begin(), state_.cubins.end(), name) != state_.cubins.end())
      pool = std::min(pool, measured.time_us);
    if (measured.time_us >= best) continue;
    best = measured.time_us;
    fastest = name;
  }
  const bool lost = cell.fallback && pool > cell.fallback->time_us;
  if (!fastest.empty() && pool > best && (lost || pool > best * (1 + kWorthwhile * request_.regret)))
    state_.cubins.push_back(fastest);
}

void RangeSearch::search_cell(std::size_t index) {
  const bool is_first = std::ranges::none_of(state_.cells, &RangeCellState::searched);
  enter(plan_.cells()[index].problem);
  const TuneResult found =
      tune_here(is_first ? request_.settings.budget : request_.warm_budget, kCellsUntil, true);
  meter_.begin(session_.request(request_.settings).kernel != nullptr);
  const std::string cubin = found.best ? meter_.cubin_of(found.best->config) : "";
  if (found.best)
    state_.cells[index].cubins[cubin] = {found.best->config.text(), found.best->result.measurement.median_us};
  measure_cell(index, cubin);
  state_.cells[index].searched = true;
  commit();
}

void RangeSearch::measure_cells() {
  for (std::size_t i = 0; i < plan_.cells().size(); ++i) {
    const bool any = std::ranges::any_of(state_.cells, &RangeCellState::is_measured);
    if (any && time_is_up(kCellsUntil)) break;
    if (!state_.cells[i].searched) search_cell(i);
    report("cells", i + 1, plan_.cells().size());
  }
  complete_cells(kRefiningUntil);
}

// Cubins that joined the pool later are measured where they were not, and cells that were never reached get what the
// pool has.
void RangeSearch::complete_cells(double until) {
  for (std::size_t i = 0; i < state_.cells.size() && !time_is_up(until); ++i) {
    const auto is_missing = [&](const std::string& name) { return !state_.cells[i].cubins.contains(name); };
    if (std::none_of(state_.cubins.begin(), state_.cubins.end(), is_missing)) continue;
    enter(plan_.cells()[i].problem);
    meter_.begin(false);
    measure_cell(i, "");
    commit();
    report("cells", i + 1, plan_.cells().size());
  }
}

void RangeSearch::refine() {
  const std::size_t most = planned_at_first_ / 2;
  for (std::size_t added = plan_.cells().size() - planned_at_first_; added < most && !time_is_up(kCellsUntil);
       ++added) {
    const auto cubin_of = [this](const std::string& config) {
      return meter_.cubin_of(session_.space_file()->parse_config(config));
    };
    const auto pair = worst_disagreement(plan_.cells(), state_, solution_.table, request_.regret, cubin_of);
    if (!pair) return;
    const std::optional<std::size_t> index = plan_.refine(pair->first, pair->second);
    if (!index) return;
    if (state_.cells.size() < plan_.cells().size()) state_of(plan_.cells()[*index].problem);
    search_cell(*index);
    complete_cells(kRefiningUntil);
    report("refining", added + 1, most);
  }
}

std::optional<std::string> RangeSearch::pick_for(const Problem& problem) const {
  std::vector<PlannedCell> cells;
  std::vector<const RangeCell*> served;
  for (const RangeCell& cell : solution_.table.cells) {
    for (const PlannedCell& planned : plan_.cells()) {
      if (planned.problem.text() != cell.problem) continue;
      cells.push_back(planned);
      served.push_back(&cell);
    }
  }
  const std::optional<std::size_t> found = plan_.nearest(plan_.cell_of(problem), cells);
  return found ? std::optional(served[*found]->config) : std::nullopt;
}

void RangeSearch::add_shape(const Problem& problem) {
  const std::optional<std::string> pick = pick_for(problem);
  if (!pick) return;
  enter(problem);
  const TuneResult own = tune_here(request_.shape_budget, kShapesUntil, false);
  meter_.begin(session_.request(request_.settings).kernel != nullptr);
  std::vector<std::string> configs{*pick};
  if (own.best) configs.push_back(own.best->config.text());
  if (session_.default_config()) configs.push_back(session_.default_config()->text());
  bool contended = false;
  const std::vector<double> times = meter_.duel(configs, contended);
  if (times[0] == 0 || contended) return;  // a recording may lack the configuration
  UnseenShape shape{.problem = problem.text(), .pick = *pick, .pick_us = times[0], .best_us = times[0]};
  for (const double time : times) shape.best_us = time > 0 ? std::min(shape.best_us, time) : shape.best_us;
  if (session_.default_config()) shape.default_us = times.back();
  state_.shapes.push_back(std::move(shape));
  ++result_.measured;
}

void RangeSearch::certify() {
  const std::vector<Problem> shapes = plan_.unseen(request_.certificate_shapes, request_.settings.seed);
  // What an earlier search saw is true of this table only if it picks the same.
  std::erase_if(state_.shapes, [&](const UnseenShape& shape) {
    const auto found = std::ranges::find(shapes, shape.problem, &Problem::text);
    return found == shapes.end() || pick_for(*found) != shape.pick;
  });
  for (std::size_t i = 0; i < shapes.size() && !time_is_up(kShapesUntil); ++i) {
    const std::string text = shapes[i].text();
    if (std::ranges::find(state_.shapes, text, &UnseenShape::problem) == state_.shapes.end())
      add_shape(shapes[i]);
    commit();
    report("certificate", i + 1, shapes.size());
  }
}

const StoredLaunch& RangeSearch::launch_of(const RangeCell& cell) {
  const Config config = session_.space_file()->parse_config(cell.config);
  const std::string cubin = meter_.cubin_of(config);
  if (const auto known = launches_.find(cubin); known != launches_.end()) return known->second;
  const auto planned = std::ranges::find(plan_.cells(), cell.problem,
                                         [](const PlannedCell& one) { return one.problem.text(); });
  const Kernel& kernel = *session_.kernel();
  const Attempt attempt =
      session_.try_compile(kernel.plan(config, planned->problem, session_.info().limits), config);
  StoredLaunch launch;
  if (attempt.outcome == Outcome::ok) launch = to_winner(attempt.candidate, {}, {}, nullptr, 0, {});
  return launches_.emplace(cubin, std::move(launch)).first->second;
}

// A configuration and the code of every cubin that the table launches; none if nothing is compiled.
std::vector<StoredLaunch> RangeSearch::variants() {
  std::vector<StoredLaunch> all;
  if (session_.compiler() == nullptr) return all;
  for (const RangeCell& cell : solution_.table.cells) {
    const StoredLaunch& launch = launch_of(cell);
    const bool is_known = std::ranges::find(all, launch.config, &StoredLaunch::config) != all.end();
    if (!launch.config.empty() && !is_known) all.push_back(launch);
  }
  return all;
}

void RangeSearch::commit() {
  solution_ = solve(state_, request_.regret, request_.variants);
  if (standing_) {
    RangeRecord record = standing_->kept_under(key());
    record.progress = state_.text();
    session_.cache()->put_range(key(), record);
    return;
  }
  const bool is_empty = solution_.table.cells.empty();
  std::vector<StoredLaunch> launches = variants();
  result_.stored = !launches.empty();
  session_.cache()->put_range(
      key(), {.table = is_empty ? "" : solution_.table.text(),
              .progress = state_.text(),
              .variants = std::move(launches),
              .stored_at = "",
              .provenance = provenance_text(
                  provenance_of(request_.settings.strategy, request_.settings.seed, session_.info()))});
}

std::optional<double> RangeSearch::ratio_to_standing(const RangeCell& cell) {
  std::optional<std::string> pick;
  try {
    const Problem problem = parse_problem(key().kernel, session_.kernel()->schema(), nullptr, cell.problem);
    session_.move_to(problem);
    session_.space_file()->parse_config(cell.config);
    pick = pick_for(problem);
  } catch (const BadInput&) {  // of other sources, or a recording that is gone
  }
  if (!pick) return std::nullopt;
  if (*pick == cell.config) return 1;
  meter_.begin(false);
  bool contended = false;
  const std::vector<double> times = meter_.duel({*pick, cell.config}, contended);
  if (contended || times[0] == 0 || times[1] == 0) return std::nullopt;
  return times[0] / times[1];
}

// The standing table leaves if the new one wins, so that the next commit stores that.
void RangeSearch::meet_standing() {
  if (!standing_) return;
  result_.contest = standing_->contest([this](const RangeCell& cell) { return ratio_to_standing(cell); });
  if (solution_.table.cells.empty()) result_.contest->replaced = false;
  if (result_.contest->replaced) standing_.reset();
}

RangeResult RangeSearch::run() {
  resume();
  try {
    measure_cells();
    refine();
    certify();
    meet_standing();
  } catch (const Stopped&) {
    result_.interrupted = true;
  }
  commit();
  result_.out_of_time = time_is_up(kShapesUntil);
  result_.subject = session_.subject();
  result_.timing = session_.key().timing;
  result_.family = key().family;
  result_.ranges = state_.ranges;
  result_.planned = plan_.cells().size();
  result_.left_out = plan_.left_out();
  result_.table = solution_.table;
  result_.unseen = state_.shapes;
  std::set<std::string> cubins;
  for (const RangeCell& cell : result_.table.cells)
    cubins.insert(meter_.cubin_of(session_.space_file()->parse_config(cell.config)));
  result_.cubins.assign(cubins.begin(), cubins.end());
  result_.wall_s = elapsed();
  context_.events.emit(Finished{result_.interrupted});
  return std::move(result_);
}

}  // namespace

RangeResult search_range(const RangeRequest& request, const JobContext& context) {
  if (request.target.cache.none)
    throw BadField("cache", "a range keeps its measurements and its table in the cache; leave out no-cache");
  return RangeSearch(request, context).run();
}

}  // namespace moetune
