#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "jobs/range_hints.h"
#include "jobs/range_picks.h"
#include "jobs/range_search.h"

namespace moetune {
namespace {

constexpr std::size_t kMostAbsorbed = 24;                   // unseen shapes that become cells
constexpr std::uint64_t kSeedsApart = 0x9e3779b97f4a7c15u;  // of two draws of unseen shapes
constexpr std::size_t kMostWithdrawals = 16;                // rounds of the certificate
constexpr std::size_t kIdleCells = 8;                       // in sequence in which a cubin is not the fastest

bool is_fastest(const std::string& name, const RangeCellState& cell) {
  const auto mine = cell.cubins.find(name);
  return mine != cell.cubins.end() && !mine->second.config.empty() &&
         std::ranges::none_of(cell.cubins, [&](const auto& other) {
           return !other.second.config.empty() && other.second.time_us < mine->second.time_us;
         });
}

// The fastest of a cubin's other run-time values, in the scale of the best one's duel; without a configuration if none
// ran.
MeasuredConfig next_best(const RangeCellState& cell, const std::string& cubin, const MeasuredConfig& best) {
  const auto known = cell.looks.find(best.config);
  if (known == cell.looks.end() || !std::isfinite(known->second.time_us)) return {};
  const double scale = best.time_us / known->second.time_us;
  MeasuredConfig next;
  for (const auto& [config, look] : cell.looks) {
    if (look.cubin != cubin || config == best.config || !std::isfinite(look.time_us)) continue;
    if (next.config.empty() || scale * look.time_us < next.time_us) next = {config, scale * look.time_us};
  }
  return next;
}

}  // namespace

std::optional<std::string> RangeSearch::served_at(const Problem& problem) {
  if (!picks_) picks_.emplace(*session_.kernel(), session_.info().limits, solution_.table);
  const std::optional<RangePicks::Pick> pick = picks_->at(problem);
  return pick ? std::optional(pick->config) : std::nullopt;
}

// Of a table that has a winner in every cell of the plan, so that all of the range is looked at closely.
const std::vector<RangePicks::Default>& RangeSearch::defaults_of_range() {
  if (defaults_) return *defaults_;
  RangeTable all;
  for (const PlannedCell& cell : plan_.cells()) {
    all.cells.push_back(
        {.problem = cell.problem.text(), .config = "", .time_us = 1, .default_us = 2, .best_us = 1});
  }
  return defaults_.emplace(RangePicks(*session_.kernel(), session_.info().limits, all).defaults());
}

// What failed at one shape is chosen at none.
void RangeSearch::withdraw(const std::string& config) {
  meter_.withdraw(config);
  for (RangeCellState& cell : state_.cells) {
    for (auto& [name, found] : cell.cubins) {
      if (found.config == config) found = next_best(cell, name, found);
    }
    if (const auto look = cell.looks.find(config); look != cell.looks.end())
      look->second.time_us = std::numeric_limits<double>::infinity();
    if (cell.fallback && cell.fallback->config == config) cell.fallback.reset();
  }
}

void RangeSearch::add_shape(const Problem& problem) {
  const std::optional<std::string> served = served_at(problem);
  if (!served) return;
  const std::string pick = *served;
  enter(problem);
  const TuneResult own = tune_here(request_.shape_budget, kShapesUntil, false);
  meter_.begin(session_.request(request_.settings).kernel != nullptr);
  // Each once: two times of one configuration would differ by noise, which is no loss.
  std::vector<std::string> configs{pick};
  const auto add = [&](const std::string& config) {
    const auto is_it = [&](const std::vector<std::string>& all) {
      return std::ranges::find(all, config) != all.end();
    };
    if (!is_it(configs) && !is_it(state_.withdrawn)) configs.push_back(config);
  };
  if (own.best) add(own.best->config.text());
  const std::string fallback = session_.default_config() ? session_.default_config()->text() : "";
  if (!fallback.empty()) add(fallback);
  bool contended = false;
  const std::vector<double> times = meter_.duel(configs, contended);
  UnseenShape shape{.problem = problem.text(), .pick = pick, .pick_us = times[0], .best_us = times[0]};
  if (times[0] == 0 && session_.info().recorded) return;  // a recording may lack the configuration
  if (times[0] == 0 || !meter_.is_right(pick)) {
    shape.failed = true;
    state_.shapes.push_back(std::move(shape));
    state_.withdrawn.push_back(pick);
    withdraw(pick);
    solve_again();
    return;
  }
  if (contended) return;
  shape.best = pick;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i] == 0 || times[i] >= shape.best_us) continue;
    shape.best = configs[i];
    shape.best_us = times[i];
  }
  if (const auto place = std::ranges::find(configs, fallback); place != configs.end())
    shape.default_us = times[static_cast<std::size_t>(place - configs.begin())];
  state_.shapes.push_back(std::move(shape));
  ++result_.measured;
}

void RangeSearch::certify_once(const std::vector<Problem>& shapes) {
  // What an earlier search saw is true of this table only if it picks the same.
  std::erase_if(state_.shapes, [&](const UnseenShape& shape) {
    const auto found = std::ranges::find(shapes, shape.problem, &Problem::text);
    if (found == shapes.end()) return true;
    return !shape.absorbed && served_at(*found) != shape.pick;
  });
  for (std::size_t i = 0;
       i < std::min(shapes.size(), request_.certificate_shapes) && !time_is_up(kShapesUntil); ++i) {
    const std::string text = shapes[i].text();
    if (std::ranges::find(state_.shapes, text, &UnseenShape::problem) == state_.shapes.end()) try {
        add_shape(shapes[i]);
      } catch (const TooLittleMemory&) {  // no cell serves it either
      } catch (const BadInput&) {
      }
    solve_again();
    store(RangeStore::Stage::under_way);
    report("certificate", i + 1, shapes.size());
  }
}

// Those that have become cells stay: what was seen there is what the table lost elsewhere.
std::vector<Problem> RangeSearch::unseen(std::size_t count) const {
  std::set<std::string> absorbed;
  for (const UnseenShape& shape : state_.shapes) {
    if (shape.absorbed) absorbed.insert(shape.problem);
  }
  return plan_.unseen(count, request_.settings.seed + kSeedsApart * state_.draw, absorbed);
}

// The own search of an unseen shape may have found a cubin that none of the cells had. It is measured in the cells
// around it, the nearest first, for as long as it is the fastest in some of them.
void RangeSearch::spread() {
  for (std::size_t from = 0; from < state_.cells.size(); ++from) {
    if (!state_.cells[from].was_unseen) continue;
    for (const std::string& name : state_.cubins) {
      if (!is_fastest(name, state_.cells[from])) continue;
      std::size_t idle = 0;
      for (const std::size_t i : by_distance(plan_.cells()[from], plan_.cells())) {
        if (idle == kIdleCells) break;
        if (complete(i, {name}, kAbsorbedUntil)) report("refining", i + 1, plan_.cells().size());
        idle = is_fastest(name, state_.cells[i]) ? 0 : idle + 1;
      }
    }
  }
  complete_pool(kAbsorbedUntil);
  solve_again();
}

// Shapes that lost more than the bound become cells, if there are others to check the table on. Whether there were any.
bool RangeSearch::absorb() {
  if (unseen(request_.certificate_shapes + 1).size() <= request_.certificate_shapes) return false;
  bool any = false;
  for (UnseenShape& shape : state_.shapes) {
    const bool is_lossy = !shape.failed && shape.pick_us > shape.best_us * (1 + request_.regret);
    const bool is_full = added() >= plan_.most_refined() + kMostAbsorbed;
    if (!is_lossy || shape.absorbed || is_full || time_is_up(kShapesUntil)) continue;
    const std::size_t before = plan_.cells().size();
    plan_.restore(shape.problem);
    if (plan_.cells().size() == before) continue;
    any = shape.absorbed = true;
    take_new_cells();
    state_.cells[before].was_unseen = true;
    std::vector<std::string> cubins = measured_everywhere();
    if (const std::string own = meter_.cubin_of(session_.space_file()->parse_config(shape.best));
        std::ranges::find(cubins, own) == cubins.end())
      cubins.push_back(own);
    complete(before, cubins, kShapesUntil);
    take_into_pool(state_.cells[before]);
  }
  if (any) {
    spread();
    complete_cover(kAbsorbedUntil);
    repair(kAbsorbedUntil);
    solve_again();
  }
  return any;
}

// What a shape lost that has become a cell is no longer true of a table that has more cells since. The others were kept
// because they lost little, so that all are drawn anew. Of recordings there are no others.
void RangeSearch::forget_shapes_of_older_table() {
  if (result_.measured == 0 || session_.recording() != nullptr) return;
  if (std::ranges::none_of(state_.shapes, &UnseenShape::absorbed)) return;
  state_.shapes.clear();
  ++state_.draw;
}

// Until nothing fails: what was seen before a choice was withdrawn may be served otherwise since. When time is up, a
// round only forgets such shapes.
void RangeSearch::certify_until_sound() {
  for (std::size_t round = 0; round < kMostWithdrawals; ++round) {
    const std::size_t before = state_.withdrawn.size();
    certify_once(
        unseen(std::max(request_.certificate_shapes, state_.shapes.size())));  // fewer than before: as before
    if (state_.withdrawn.size() == before) return;
  }
}

void RangeSearch::certify() {
  forget_shapes_of_older_table();
  resumed_picks_.reset();
  do {
    certify_until_sound();
  } while (!time_is_up(kShapesUntil) && absorb());
}

}  // namespace moetune
