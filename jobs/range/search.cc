#include "jobs/range/search.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/error.h"
#include "jobs/range/served_ranges.h"
#include "tuner/history.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

// Cells are searched until so many in sequence brought no new cubin.
constexpr std::size_t kIdleSearches = 8, kLeastSearches = 16;
// A cubin joins those that are measured everywhere if it is faster somewhere by this share of the bound.
constexpr double kWorthwhile = 0.5;
constexpr std::size_t kMostWithdrawals = 16;  // rounds of the certificate

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

RangeSearch::RangeSearch(const RangeRequest& request, const JobContext& context)
    : request_(request),
      context_(context),
      session_(
          choose_device(request.target.device, request.target.workload,
                        {.replay = request.target.replay, .family = true, .waits = waits_of(context, request.time_s)}),
          {.cache = request.target.cache,
           .no_compile = request.no_compile,
           .threads = request.threads,
           .timing = request.settings.policy.timing,
           .waits = waits_of(context, request.time_s)},
          context.events),
      base_(problem_of(*session_.kernel(), request.target.workload)),
      plan_(session_, base_, request.over),
      meter_(session_, request_.settings, context_),
      store_(*session_.cache(), key(), plan_.ranges(), base_, {request.settings.fresh, request.guard}) {}

RangeKey RangeSearch::key() const {
  const WorkloadKey& workload = session_.key();
  return {workload.kernel,    session_.kernel()->specialization(base_).text(),
          workload.hardware,  workload.source_digest,
          workload.toolchain, workload.timing};
}

void RangeSearch::report(std::string_view stage, std::size_t done, std::size_t planned) const {
  const double left = request_.time_s > 0 ? std::max(0.0, request_.time_s - elapsed()) : 0;
  context_.events.emit(
      RangeAdvanced{stage, done, planned, solution_.cubins.size(), solution_.table.worst_cell(), left});
}

RangeState RangeSearch::progress() const {
  try {
    return store_.progress().value_or(RangeState{});
  } catch (const BadInput& error) {
    const std::string text = std::string("The range is measured anew: ") + error.what();
    context_.events.emit(Warning{WarningKind::history_left_out, text});
    return {};
  }
}

// Cells that no longer hold are measured again; what was found at shapes by their choices is forgotten with them.
void RangeSearch::forget_untrue(RangeState& known) const {
  bool is_any = false;
  for (MeasuredCell& cell : known.cells) {
    if (!cell.is_measured() || meter_.holds(cell)) continue;
    cell = {.problem = cell.problem};
    is_any = true;
  }
  if (!is_any) return;
  known.shapes.clear();
  known.withdrawn.clear();
}

// A search of the same ranges goes on: its cells come in the order that they had. Cells that a search of other ranges
// measured, which overlap with these, are taken over and count as cells of the grid, which has fewer of its own then.
void RangeSearch::restore_cells(const RangeState& known, bool goes_on) {
  const std::size_t first = goes_on ? std::min(plan_.coarse(), known.cells.size()) : 0;
  const std::size_t count = goes_on ? std::min(known.taken_over, known.cells.size() - first) : known.cells.size();
  for (std::size_t i = first; i < first + count; ++i) {
    if (goes_on || known.cells[i].is_measured()) plan_.restore(known.cells[i].problem);
  }
  state_.taken_over = plan_.cells().size() - plan_.coarse();
  plan_.fill();
  if (!goes_on) return;
  for (const MeasuredCell& cell : known.cells) plan_.restore(cell.problem);
}

void RangeSearch::resume() {
  RangeState known = progress();
  forget_untrue(known);
  state_.ranges = ranges_text(plan_.ranges());
  state_.cubins = known.cubins;
  state_.withdrawn = known.withdrawn;
  const bool goes_on =
      known.ranges == state_.ranges && (known.cells.empty() || plan_.is_of_base(known.cells.front().problem));
  if (goes_on) {
    state_.idle = known.idle;
    state_.filled = known.filled;
    state_.shapes = known.shapes;
  }
  restore_cells(known, goes_on);
  for (const PlannedProblem& planned : plan_.cells()) {
    const std::string text = planned.problem.text();
    const auto found = std::ranges::find(known.cells, text, &MeasuredCell::problem);
    state_.cells.push_back(found != known.cells.end() ? *found : MeasuredCell{.problem = text});
    state_.cells.back().unreachable.clear();  // it may have been for want of memory
    if (state_.cells.back().is_measured()) meter_.learn(state_.cells.back());
  }
  for (const std::string& config : state_.withdrawn) meter_.withdraw(config);
  solve_again();
}

// A fresh search measures every problem anew: a search that knows its earlier trials has no budget left for others.
// The trials of problems that come later stay until then, as experience.
void RangeSearch::enter(const Problem& problem) {
  session_.move_to(problem);
  const bool is_first = entered_.insert(problem.text()).second;
  if (!request_.settings.fresh || !is_first) return;
  if (const auto known = session_.cache()->workloads.find(session_.key())) session_.cache()->trials.clear(*known);
}

// False, with the reason in the cell, if no configuration is legal there.
bool RangeSearch::enter(std::size_t index) {
  try {
    enter(plan_.cells()[index].problem);
    return true;
  } catch (const BadInput& error) {
    state_.cells[index].unreachable = error.what();
    return false;
  }
}

// A cell's winner is stored with its times under all timings, unless an older table must be beaten first; the search
// of an unseen shape is a yardstick, and serves nobody.
TuneResult RangeSearch::tune_here(std::size_t budget, double until, bool is_cell) {
  TuneSettings settings = request_.settings;
  settings.budget = budget;
  settings.fresh = false;
  settings.all_timings = is_cell;
  if (request_.time_s > 0) settings.time_budget_s = std::max(0.1, until * request_.time_s - elapsed());
  TuneRequest tuning = session_.request(settings);
  tuning.assess = false;  // no document has it
  tuning.store_winner = is_cell && !store_.is_guarded();
  const TransferContext transfer{session_.kernel(), session_.space_file(), session_.info().limits};
  tuning.histories = histories_for(*session_.cache(), session_.key(), session_.space(), &transfer);
  TuneResult found = session_.tune(tuning, context_.stop);
  if (found.interrupted) throw Stopped();
  return found;
}

// Each cubin's best configurations in the nearest cells; cells of the same kind of work (even or ragged) come first.
std::vector<CellMeter::Hint> RangeSearch::hints(std::size_t index, const std::vector<std::string>& cubins,
                                                std::size_t origins) const {
  const PlannedProblem& here = plan_.cells()[index];
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < plan_.cells().size(); ++i) {
    const PlannedProblem& other = plan_.cells()[i];
    const double other_kind = other.ragged != here.ragged ? 1 : 0;
    order.emplace_back(grid_distance(other.position, here.position) + other_kind, i);
  }
  std::ranges::sort(order);
  std::vector<CellMeter::Hint> hints;
  for (const std::string& name : cubins) {
    CellMeter::Hint& hint = hints.emplace_back(CellMeter::Hint{.cubin = name, .origins = {}});
    for (const auto& [distance, i] : order) {
      if (hint.origins.size() == origins) break;
      const MeasuredCell& other = state_.cells[i];
      const auto known = other.cubins.find(name);
      if (known != other.cubins.end() && !known->second.config.empty())
        hint.origins.push_back({known->second.config, other.problem});
    }
  }
  return hints;
}

// Measures cubins in a cell. Discards the losses at unseen shapes: the table that lost lacked this measurement.
void RangeSearch::measure(std::size_t index, const std::vector<std::string>& cubins, const CellMeter::Effort& effort) {
  meter_.measure(hints(index, cubins, effort.origins), effort, state_.cells[index]);
  state_.shapes.clear();
  ++result_.measured;
}

// Measures the cell that the session is at, by short trials.
void RangeSearch::look(std::size_t index, const std::vector<std::string>& cubins) try {
  meter_.begin(false);
  measure(index, cubins, meter_.brief());
  commit();
} catch (const TooLittleMemory& error) {
  state_.cells[index].unreachable = error.what();
}

// Measures a cell that lacks some of these cubins; false if it lacks none, or cannot be measured.
bool RangeSearch::complete(std::size_t index, const std::vector<std::string>& cubins, double until) {
  const MeasuredCell& cell = state_.cells[index];
  const auto is_missing = [&](const std::string& name) { return !cell.cubins.contains(name); };
  if (!cell.unreachable.empty() || time_is_up(until) || std::ranges::none_of(cubins, is_missing)) return false;
  if (!enter(index)) return false;
  look(index, cubins);
  return true;
}

// The fastest cubin of a cell joins the pool if it is worth it.
void RangeSearch::take_into_pool(const MeasuredCell& cell) {
  double pool = std::numeric_limits<double>::infinity(), best = pool;
  std::string fastest;
  for (const auto& [name, measured] : cell.cubins) {
    if (measured.config.empty()) continue;
    if (has(state_.cubins, name)) pool = std::min(pool, measured.time_us);
    if (measured.time_us >= best) continue;
    best = measured.time_us;
    fastest = name;
  }
  const bool lost = cell.measured_default && pool > cell.measured_default->time_us;
  const bool is_new = !fastest.empty() && pool > best;
  if (is_new && (lost || pool > best * (1 + kWorthwhile * request_.regret))) state_.cubins.push_back(fastest);
}

void RangeSearch::search_cell(std::size_t index) try {
  const bool is_first = std::ranges::none_of(state_.cells, &MeasuredCell::searched);
  if (!enter(index)) return;
  const TuneResult found = tune_here(is_first ? request_.settings.budget : request_.warm_budget, kSearchUntil, true);
  meter_.begin(session_.request(request_.settings).kernel != nullptr);
  std::vector<std::string> cubins = choosable_cubins(state_);
  const auto add = [&](const Config& config) {
    const std::string name = meter_.cubin_of(config);
    if (!has(cubins, name)) cubins.push_back(name);
    return name;
  };
  if (found.best)
    state_.cells[index].cubins[add(found.best->config)] = {found.best->config.text(),
                                                           found.best->result.measurement.median_us};
  if (session_.default_config()) add(*session_.default_config());
  const std::size_t before = state_.cubins.size();
  measure(index, cubins, meter_.thorough());
  take_into_pool(state_.cells[index]);
  const bool has_grown = state_.cubins.size() > before;
  state_.idle = has_grown ? 0 : state_.idle + 1;
  if (has_grown) state_.filled.clear();
  state_.cells[index].searched = true;
  solve_again();
  store(RangeStore::Stage::under_way);  // at once: the next search learns from this one
} catch (const TooLittleMemory& error) {
  state_.cells[index].unreachable = error.what();
}

// Then cubins that joined the pool later, or that are the default in another searched cell, are measured in the cells
// that were searched before.
void RangeSearch::search() {
  for (std::size_t i = 0; i < plan_.coarse(); ++i) {
    const auto searched = static_cast<std::size_t>(std::ranges::count_if(state_.cells, &MeasuredCell::searched));
    if (searched > 0 && time_is_up(kSearchUntil)) break;
    if (searched >= kLeastSearches && state_.idle >= kIdleSearches) break;
    if (!state_.cells[i].searched && state_.cells[i].unreachable.empty()) search_cell(i);
    report("search", i + 1, plan_.coarse());
  }
  RangeState searched{.cubins = state_.cubins};
  std::ranges::copy_if(state_.cells, std::back_inserter(searched.cells), &MeasuredCell::searched);
  const std::vector<std::string> cubins = choosable_cubins(searched);
  for (std::size_t i = 0; i < state_.cells.size(); ++i) {
    if (state_.cells[i].searched && complete(i, cubins, kFillUntil)) report("search", i + 1, plan_.coarse());
  }
}

// The cubins of the table so far, and those that as many cubins would have with a closer bound: the finer grid may need
// them. Chosen once, so that cells which come in between do not change what all others must measure.
void RangeSearch::choose_filled() {
  if (!state_.filled.empty()) return;
  state_.filled = solution_.cubins;
  for (const std::string& name : solve(state_, request_.regret / 4, request_.variants).cubins) {
    if (!has(state_.filled, name)) state_.filled.push_back(name);
  }
}

// All other cells see what the table may launch. What somebody else's work disturbed is measured once more.
void RangeSearch::fill() {
  choose_filled();
  for (std::size_t i = 0; i < state_.cells.size(); ++i) {
    if (complete(i, state_.filled, kFillUntil)) report("fill", i + 1, plan_.cells().size());
  }
  for (std::size_t i = 0; i < state_.cells.size() && !time_is_up(kFillUntil); ++i) {
    if (state_.cells[i].contended && enter(i)) look(i, state_.filled);
  }
  solve_again();
}

std::optional<std::string> RangeSearch::served_at(const Problem& problem) {
  if (!picks_) picks_.emplace(*session_.kernel(), session_.info().limits, solution_.table);
  const std::optional<RangePicks::Pick> pick = picks_->at(problem);
  return pick ? std::optional(pick->config) : std::nullopt;
}

// The table's choice, the default and the winner of a short search of the shape's own meet in a duel.
void RangeSearch::add_shape(const Problem& problem) {
  const std::optional<std::string> served = served_at(problem);
  if (!served) return;
  const std::string pick = *served;
  enter(problem);
  const TuneResult own = tune_here(request_.shape_budget, kCertifyUntil, false);
  meter_.begin(session_.request(request_.settings).kernel != nullptr);
  // Each once: two times of one configuration would differ by noise, which is no loss.
  std::vector<std::string> configs{pick};
  const std::string space_default = session_.default_config() ? session_.default_config()->text() : "";
  for (const std::string& config : {own.best ? own.best->config.text() : "", space_default}) {
    if (!config.empty() && !has(configs, config) && !has(state_.withdrawn, config)) configs.push_back(config);
  }
  bool contended = false;
  const std::vector<double> times = meter_.duel(configs, contended);
  UnseenShape shape{.problem = problem.text(), .pick = pick, .pick_us = times[0], .best_us = times[0]};
  if (times[0] == 0 && session_.info().recorded) return;  // a recording may lack the configuration
  if (times[0] == 0 || !meter_.is_right(pick)) {
    shape.failed = true;
    state_.shapes.push_back(std::move(shape));
    if (!has(state_.withdrawn, pick)) state_.withdrawn.push_back(pick);  // it is chosen in no cell
    meter_.withdraw(pick);
    return;
  }
  if (contended) return;
  shape.best = pick;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (configs[i] == space_default) shape.default_us = times[i];
    if (times[i] == 0 || times[i] >= shape.best_us) continue;
    shape.best = configs[i];
    shape.best_us = times[i];
  }
  state_.shapes.push_back(std::move(shape));
  ++result_.measured;
}

void RangeSearch::certify_once(const std::vector<Problem>& shapes) {
  // Keep an earlier search's result at a shape only if this table picks the same there.
  std::erase_if(state_.shapes, [&](const UnseenShape& shape) {
    const auto found = std::ranges::find(shapes, shape.problem, &Problem::text);
    return found == shapes.end() || (!shape.failed && served_at(*found) != shape.pick);
  });
  const std::size_t count = std::min(shapes.size(), request_.certificate_shapes);
  for (std::size_t i = 0; i < count && !time_is_up(kCertifyUntil); ++i) {
    const std::string text = shapes[i].text();
    if (std::ranges::find(state_.shapes, text, &UnseenShape::problem) == state_.shapes.end()) try {
        add_shape(shapes[i]);
      } catch (const TooLittleMemory&) {  // no cell serves it either
      } catch (const BadInput&) {
      }
    solve_again();
    store(RangeStore::Stage::under_way);
    report("certificate", i + 1, count);
  }
}

// Until nothing fails: what was seen before a choice was withdrawn may be served otherwise since. When time is up, a
// round only forgets such shapes. Fewer shapes than before: as before.
void RangeSearch::certify() {
  for (std::size_t round = 0; round < kMostWithdrawals; ++round) {
    const std::size_t before = state_.withdrawn.size();
    certify_once(plan_.unseen(std::max(request_.certificate_shapes, state_.shapes.size()), request_.settings.seed));
    if (state_.withdrawn.size() == before) return;
  }
}

void RangeSearch::solve_again() {
  picks_.reset();
  solution_ = solve(state_, request_.regret, request_.variants);
}

// Those of a table that has a winner in every cell of the plan, so that all of the range is looked at closely.
const std::vector<RangePicks::Default>& RangeSearch::defaults_of_range() {
  if (defaults_) return *defaults_;
  RangeTable all;
  for (const PlannedProblem& planned : plan_.cells())
    all.cells.push_back({.problem = planned.problem.text(), .config = "", .time_us = 1, .default_us = 2, .best_us = 1});
  return defaults_.emplace(RangePicks(*session_.kernel(), session_.info().limits, all).defaults());
}

const StoredLaunch& RangeSearch::launch_of(const std::string& text, const Problem& problem) {
  const Config config = session_.space_file()->parse_config(text);
  const std::string cubin = meter_.cubin_of(config);
  if (const auto known = launches_.find(cubin); known != launches_.end()) return known->second;
  const Attempt attempt =
      session_.try_compile(session_.kernel()->plan(config, problem, session_.info().limits), config);
  StoredLaunch launch;
  if (attempt.outcome == Outcome::ok) launch = to_winner(attempt.candidate, {}, {}, nullptr, 0, {});
  return launches_.emplace(cubin, std::move(launch)).first->second;
}

// A configuration and the code of each cubin of the table and of every default of the range; none if nothing is
// compiled.
std::vector<StoredLaunch> RangeSearch::launches() {
  std::vector<StoredLaunch> all;
  if (session_.compiler() == nullptr || solution_.table.cells.empty()) return all;
  const auto add = [&](const std::string& config, const Problem& problem) {
    const StoredLaunch& launch = launch_of(config, problem);
    const bool is_known = std::ranges::find(all, launch.config, &StoredLaunch::config) != all.end();
    if (!launch.config.empty() && !is_known) all.push_back(launch);
  };
  const Kernel& kernel = *session_.kernel();
  for (const RangeCell& cell : solution_.table.cells) add(cell.config, kernel.parse(cell.problem));
  const std::vector<RangePicks::Default>& defaults = defaults_of_range();
  for (const RangePicks::Default& one : defaults) {  // side by side, of cubins that are then asked for in turn
    const Config config = session_.space_file()->parse_config(one.config);
    if (!launches_.contains(meter_.cubin_of(config)))
      session_.compiler()->submit(kernel.plan(config, one.problem, session_.info().limits).unit);
  }
  for (const RangePicks::Default& one : defaults) add(one.config, one.problem);
  return all;
}

// Stores the progress of short trials at most once a second. Losing the latest costs no new measurement, because the
// trials are in the cache already.
void RangeSearch::commit() {
  solve_again();
  if (!stored_at_ || Clock::now() - *stored_at_ > std::chrono::seconds(1)) store(RangeStore::Stage::under_way);
}

void RangeSearch::store(RangeStore::Stage stage) {
  Provenance made = provenance_of(request_.settings.strategy, request_.settings.seed, session_.info());
  if (session_.kernel() != nullptr && !solution_.table.cells.empty()) {
    made.judged =
        judged_of_ranges(*session_.kernel(), served_ranges(*session_.kernel(), solution_.table), base_, key().hardware);
  }
  store_.put(state_, solution_.table, {launches(), provenance_text(made)}, stage);
  stored_at_ = Clock::now();
}

// Cells that were neither measured nor found to be out of reach. If the searches found nothing that is valid, no time
// would reach the others.
std::size_t RangeSearch::unreached() const {
  if (state_.cubins.empty() && state_.idle >= std::min(kLeastSearches, plan_.coarse())) return 0;
  return static_cast<std::size_t>(std::ranges::count_if(
      state_.cells, [](const MeasuredCell& cell) { return !cell.is_measured() && cell.unreachable.empty(); }));
}

void RangeSearch::take_winners() {
  WorkloadKey key = session_.key();
  for (const MeasuredCell& cell : state_.cells) {
    if (!cell.searched) continue;
    key.problem = cell.problem;
    try {
      const auto workload = session_.cache()->workloads.find(key);
      const auto winner =
          workload ? session_.cache()->winners.find(*workload, WinnerParts::without_cubins) : std::nullopt;
      if (winner) result_.winners.push_back({cell.problem, winner->config, parse_timings(winner->timings)});
    } catch (const DamagedWinner&) {  // `cache check` names it
    }
  }
}

void RangeSearch::finish() {
  result_.out_of_time = !result_.interrupted && request_.time_s > 0 && (unreached() > 0 || time_is_up(kCertifyUntil));
  const bool is_complete = !result_.interrupted && !result_.out_of_time;
  solve_again();
  store(is_complete           ? RangeStore::Stage::complete
        : result_.interrupted ? RangeStore::Stage::under_way
                              : RangeStore::Stage::time_is_up);
  result_.stored = store_.is_stored();
  result_.comparison = store_.comparison();
  result_.subject = session_.subject();
  result_.timing = session_.key().timing;
  result_.family = key().family;
  result_.ranges = state_.ranges;
  result_.planned = plan_.cells().size();
  result_.left_to_default = solution_.left_to_default;
  result_.left_out = plan_.left_out();
  for (const MeasuredCell& cell : state_.cells) {
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
    search();
    fill();
    certify();
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
