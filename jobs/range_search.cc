#include "jobs/range_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "base/error.h"
#include "jobs/range_hints.h"
#include "jobs/range_refinement.h"
#include "tuner/history.h"

namespace moetune {
namespace {

// A cubin joins those that are measured everywhere if it is faster somewhere by this share of the bound.
constexpr double kWorthwhile = 0.5;
// Defaults of fewer cells than this share are measured where they are the default.
constexpr double kFrequentDefault = 0.04;
// After so many waves of blocks another one weighs little.
constexpr int kMostWaves = 3;
constexpr std::size_t kMostSteps = 4;  // cells beside steps, to one of the coarse grid

}  // namespace

RangeSearch::RangeSearch(const RangeRequest& request, const JobContext& context)
    : request_(request),
      context_(context),
      session_(choose_family_device(request.target.device, request.target.workload, request.target.replay,
                                    waits_of(context, request.time_s)),
               {.cache = request.target.cache,
                .no_compile = request.no_compile,
                .threads = request.threads,
                .timing = request.settings.policy.timing},
               context.events),
      base_(problem_of(*session_.kernel(), request.target.workload)),
      plan_(session_, base_, request.over),
      meter_(session_, request_.settings, context_),
      variants_(session_, meter_),
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

// A fresh search measures every problem anew: a search that knows its earlier trials has no budget left for others.
// The trials of problems that come later stay until then, as experience.
void RangeSearch::enter(const Problem& problem) {
  session_.move_to(problem);
  const bool is_first = entered_.insert(problem.text()).second;
  if (!request_.settings.fresh || !is_first) return;
  if (const auto known = session_.cache()->find_workload(session_.key()))
    session_.cache()->clear_trials(*known);
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
  tuning.store_winner = is_cell && !store_.is_guarded();
  const TransferContext transfer{session_.kernel(), session_.space_file(), session_.info().limits};
  tuning.histories = histories_for(*session_.cache(), session_.key(), session_.space(), &transfer);
  TuneResult found = session_.tune(tuning, context_.stop);
  if (found.interrupted) throw Stopped();
  return found;
}

void RangeSearch::measure(std::size_t index, const std::vector<std::string>& cubins,
                          const CellMeter::Effort& effort) {
  const PlannedCell& cell = plan_.cells()[index];
  meter_.measure(nearest_hints(cubins, cell, plan_.cells(), state_, solution_.picks, effort.origins), effort,
                 state_.cells[index]);
  ++result_.measured;
}

// The fastest cubin of a cell joins the pool if it is worth it.
void RangeSearch::take_into_pool(const RangeCellState& cell) {
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
  const bool is_new = !fastest.empty() && pool > best;
  if (is_new && (lost || pool > best * (1 + kWorthwhile * request_.regret))) state_.cubins.push_back(fastest);
}

void RangeSearch::search_cell(std::size_t index, double until) try {
  const bool is_first = std::ranges::none_of(state_.cells, &RangeCellState::searched);
  if (!enter(index)) return;
  const TuneResult found = tune_here(is_first ? request_.settings.budget : request_.warm_budget, until, true);
  meter_.begin(session_.request(request_.settings).kernel != nullptr);
  std::vector<std::string> cubins = choosable_cubins(state_);
  const auto add = [&](const Config& config) {
    const std::string name = meter_.cubin_of(config);
    if (std::ranges::find(cubins, name) == cubins.end()) cubins.push_back(name);
    return name;
  };
  if (found.best)
    state_.cells[index].cubins[add(found.best->config)] = {found.best->config.text(),
                                                           found.best->result.measurement.median_us};
  if (session_.default_config()) add(*session_.default_config());
  for (const std::string& name : relatives_) {
    if (std::ranges::find(cubins, name) == cubins.end()) cubins.push_back(name);
  }
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

void RangeSearch::search_cells(double until, bool all) {
  for (std::size_t i = 0; i < (all ? state_.cells.size() : plan_.coarse()); ++i) {
    const auto searched =
        static_cast<std::size_t>(std::ranges::count_if(state_.cells, &RangeCellState::searched));
    if (searched > 0 && time_is_up(until)) break;
    if (searched >= kLeastSearches && state_.idle >= kIdleSearches) break;
    if (!state_.cells[i].searched && state_.cells[i].unreachable.empty()) search_cell(i, until);
    report("cells", i + 1, plan_.cells().size());
  }
}

// Measures the cell that the session is at, by short trials.
void RangeSearch::look(std::size_t index, const std::vector<std::string>& cubins,
                       const CellMeter::Effort& effort) try {
  meter_.begin(false);
  measure(index, cubins, effort);
  commit();
} catch (const TooLittleMemory& error) {
  state_.cells[index].unreachable = error.what();
}

// Measures a cell that lacks some of these cubins; false if it lacks none, or cannot be measured.
bool RangeSearch::complete(std::size_t index, const std::vector<std::string>& cubins, double until) {
  const RangeCellState& cell = state_.cells[index];
  const auto is_missing = [&](const std::string& name) { return !cell.cubins.contains(name); };
  if (!cell.unreachable.empty() || time_is_up(until) || std::ranges::none_of(cubins, is_missing))
    return false;
  if (!enter(index)) return false;
  look(index, cubins, meter_.brief());
  return true;
}

// What other tables of the kernel have launched since is tried in the cells that were searched before, and may join the
// pool.
void RangeSearch::try_relatives(double until) {
  const std::size_t before = state_.cubins.size();
  for (std::size_t i = 0; i < state_.cells.size(); ++i) {
    if (!state_.cells[i].searched || !complete(i, relatives_, until)) continue;
    take_into_pool(state_.cells[i]);
    report("cells", i + 1, plan_.cells().size());
  }
  if (state_.cubins.size() > before) state_.filled.clear();
}

// Cubins that joined the pool later, or that are the default in another searched cell, are measured in the cells that
// were searched before.
void RangeSearch::complete_pool(double until) {
  RangeState searched{.cubins = state_.cubins};
  std::ranges::copy_if(state_.cells, std::back_inserter(searched.cells), &RangeCellState::searched);
  const std::vector<std::string> cubins = choosable_cubins(searched);
  for (std::size_t i = 0; i < state_.cells.size(); ++i) {
    if (state_.cells[i].searched && complete(i, cubins, until)) report("cells", i + 1, plan_.cells().size());
  }
}

// Cubins that are the default in a share of the cells worth measuring everywhere; the most frequent first.
std::vector<std::string> RangeSearch::cubins_of_defaults() const {
  std::map<std::string, std::size_t> counts;
  for (const PlannedCell& cell : plan_.cells()) {
    const auto fallback =
        session_.space_file()->default_config(expression_environment(cell.problem, session_.info().limits));
    if (fallback) ++counts[meter_.cubin_of(*fallback)];
  }
  std::vector<std::pair<std::size_t, std::string>> frequent;
  for (const auto& [name, count] : counts) {
    if (static_cast<double>(count) >= kFrequentDefault * static_cast<double>(plan_.cells().size()))
      frequent.emplace_back(count, name);
  }
  std::ranges::sort(frequent, std::greater());
  std::vector<std::string> names;
  for (auto& [count, name] : frequent) names.push_back(std::move(name));
  return names;
}

// The cubins of the table so far, those that as many cubins would have with a closer bound, and those of defaults: the
// finer grid may need them. Chosen once, so that cells which come in between do not change what all others must
// measure.
void RangeSearch::choose_filled() {
  if (!state_.filled.empty()) return;
  state_.filled = solution_.cubins;
  const auto add = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (std::ranges::find(state_.filled, name) == state_.filled.end()) state_.filled.push_back(name);
    }
  };
  add(cubins_of_defaults());
  add(solve(state_, request_.regret / 4, request_.variants, neighbours_).cubins);
}

// What a cell that comes later measures, so that it lacks nothing which the same search, continued, would measure
// there.
std::vector<std::string> RangeSearch::measured_everywhere() const {
  std::vector<std::string> names = state_.filled;
  for (const std::string& name : solution_.cubins) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

// All other cells see what the table may launch.
void RangeSearch::fill() {
  choose_filled();
  for (std::size_t i = 0; i < state_.cells.size(); ++i) {
    if (complete(i, state_.filled, kFillUntil)) report("cells", i + 1, plan_.cells().size());
  }
  complete_cover(kFillUntil);
}

// Time that the fine grid leaves goes into searches of cells that had none, the coarse ones first. Without a limit none
// is left.
void RangeSearch::search_on() {
  if (request_.time_s == 0 || time_is_up(kSearchedOnUntil)) return;
  search_cells(kSearchedOnUntil, true);
  complete_pool(kFillUntil);
  fill();
}

// Whether something that serves around the cell is legal there, and was not tried.
bool RangeSearch::has_untried(std::size_t index) {
  const RangeCellState& cell = state_.cells[index];
  std::vector<std::string> untried;
  for (const CellMeter::Hint& hint : nearest_hints(solution_.cubins, plan_.cells()[index], plan_.cells(),
                                                   state_, solution_.picks, meter_.brief().origins)) {
    for (const CellMeter::Hint::Origin& origin : hint.origins) {
      if (!cell.looks.contains(origin.config)) untried.push_back(origin.config);
    }
  }
  return !untried.empty() && enter(index) && std::ranges::any_of(untried, [this](const std::string& config) {
    return session_.space().find(session_.space_file()->parse_config(config)).has_value();
  });
}

// What serves a cell's neighbours is tried there as well, so that a choice can be judged around each cell.
void RangeSearch::cross() {
  for (std::size_t i = 0; i < state_.cells.size() && !time_is_up(kAcrossUntil); ++i) {
    if (state_.cells[i].crossed || !state_.cells[i].is_measured()) continue;
    if (has_untried(i)) look(i, solution_.cubins, meter_.brief());
    state_.cells[i].crossed = true;
    report("refining", i + 1, plan_.cells().size());
  }
}

// Gives cells that were added to the plan a state without measurements, and solves again. The index of the first.
std::size_t RangeSearch::take_new_cells() {
  const std::size_t first = state_.cells.size();
  for (std::size_t i = first; i < plan_.cells().size(); ++i)
    state_.cells.push_back({.problem = plan_.cells()[i].problem.text(), .crossed = true});
  solve_again();
  return first;
}

// How many waves of blocks the cell's choice takes at a problem; 0 if it has none, or cannot be launched there.
int RangeSearch::waves_there(std::size_t index, const Problem& problem) const {
  const std::string& config = solution_.picks[index].config;
  if (config.empty()) return 0;
  try {
    return static_cast<int>(std::ceil(meter_.waves_of(session_.space_file()->parse_config(config), problem)));
  } catch (const BadInput&) {
    return 0;
  }
}

// A choice whose blocks fill the SMs once may be far from the best with one sequence more. Between two cells beside
// each other the cells on both sides of such a step are measured: those of the first wave first, for which it weighs
// most.
void RangeSearch::follow_waves() {
  if (session_.recording() != nullptr) return;
  const std::vector<std::pair<std::size_t, std::size_t>> pairs = plan_.counted_neighbours();
  for (int waves = 1; waves <= kMostWaves; ++waves) {
    for (const auto& [a, b] : pairs) {
      if (time_is_up(kWavesUntil) || state_.steps >= kMostSteps * plan_.coarse()) return;
      if (waves_there(a, plan_.cells()[a].problem) != waves) continue;
      const auto is_past = [&, a = a](const Problem& problem) { return waves_there(a, problem) > waves; };
      if (!is_past(plan_.cells()[b].problem)) continue;
      const std::size_t before = plan_.cells().size();
      plan_.add_around(a, b, is_past);
      if (plan_.cells().size() == before) continue;
      const std::size_t first = take_new_cells();
      state_.steps += state_.cells.size() - first;
      for (std::size_t index = first; index < state_.cells.size(); ++index) {
        complete(index, measured_everywhere(), kWavesUntil);
        report("refining", index + 1, plan_.cells().size());
      }
    }
  }
}

// Adds a cell to the worst pair that has room for one; false if none has.
bool RangeSearch::refine_once(double until) {
  for (const auto& [a, b] : disagreements(plan_.cells(), state_, solution_.picks, request_.regret)) {
    const std::optional<std::size_t> index = plan_.refine(a, b);
    if (!index) continue;
    take_new_cells();
    complete(*index, measured_everywhere(), until);
    return true;
  }
  return false;
}

void RangeSearch::refine(double until) {
  while (added() < plan_.most_refined() && !time_is_up(until) && refine_once(until))
    report("refining", added(), plan_.most_refined());
}

void RangeSearch::measure_contended() {
  for (std::size_t i = 0; i < state_.cells.size() && !time_is_up(kAcrossUntil); ++i) {
    if (state_.cells[i].contended && enter(i)) look(i, solution_.cubins, meter_.brief());
  }
}

}  // namespace moetune
