#include "jobs/range_solution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tuner/finals.h"

namespace moetune {
namespace {

static_assert(RangeCell::kTie == kTie);

constexpr double kUnmeasured = std::numeric_limits<double>::infinity();
// How far, in octaves, cells have a say in each other's choice. Cells of a table are up to two octaves apart, and each
// serves half-way to the next.
constexpr double kNeighbourOctaves = 1.25;
// Losses of one cell: of what does not run or is clearly slower, and of what was not tried there.
constexpr double kClearlySlower = 0.5, kUntried = 0.03;
// A loss of so much counts twice: one large loss is worse than several small ones.
constexpr double kLargeLoss = 0.02;
// What a cell gives away for what is better around it, of the bound. Most shapes that it serves are nearer to it than
// to its neighbours, which other numbers of blocks suit.
constexpr double kGivenAway = 0.25;
// A configuration that met the default in no duel must be faster by so much in the single trials.
constexpr double kSurelyFaster = 0.995;

// A cubin's best in a cell; without a configuration if nothing of it runs.
MeasuredConfig best_of(const RangeCellState& cell, const std::string& cubin) {
  const auto found = cell.cubins.find(cubin);
  MeasuredConfig best = found != cell.cubins.end() ? found->second : MeasuredConfig{};
  if (!cell.fallback || cubin != cell.fallback_cubin) return best;
  return best.config.empty() || best.time_us > cell.fallback->time_us ? *cell.fallback : best;
}

CellTimes times_of(const RangeCellState& cell, const std::vector<std::string>& cubins) {
  CellTimes times{.default_us = cell.fallback ? cell.fallback->time_us : kUnmeasured};
  for (const std::string& name : cubins) {
    const MeasuredConfig best = best_of(cell, name);
    times.cubins.push_back(best.config.empty() ? kUnmeasured : best.time_us);
  }
  for (const auto& [name, measured] : cell.cubins) {
    if (!measured.config.empty()) times.others_us = std::min(times.others_us, measured.time_us);
  }
  return times;
}

// What the single trials of a cell say. Their times compare with each other; `scale` makes a duel's time of one.
class CellLooks {
 public:
  explicit CellLooks(const RangeCellState& cell) : cell_(cell) {
    for (const auto& [config, look] : cell.looks) best_us_ = std::min(best_us_, look.time_us);
    if (cell.fallback) default_us_ = time_of(cell.fallback->config);
  }

  bool is_known() const { return std::isfinite(best_us_); }

  double scale() const {
    const MeasuredConfig* fastest = nullptr;
    for (const auto& [name, measured] : cell_.cubins) {
      if (measured.config.empty() || !std::isfinite(time_of(measured.config))) continue;
      if (fastest == nullptr || measured.time_us < fastest->time_us) fastest = &measured;
    }
    return fastest != nullptr ? fastest->time_us / time_of(fastest->config) : 1;
  }

  // How bad it would be if the configuration served here; 0 for the best.
  double badness(const std::string& config) const {
    const auto found = cell_.looks.find(config);
    const bool is_slow = found != cell_.looks.end() && !std::isfinite(found->second.time_us);
    double loss = kUntried;
    if (found != cell_.looks.end())
      loss = is_slow ? kClearlySlower : std::min(kClearlySlower, found->second.time_us / best_us_ - 1);
    const bool has_both = found != cell_.looks.end() && !is_slow && std::isfinite(default_us_);
    const double to_default = has_both ? std::max(0.0, found->second.time_us / default_us_ - 1) : 0;
    return loss * (1 + loss / kLargeLoss) + 2 * to_default;
  }

 private:
  double time_of(const std::string& config) const {
    const auto found = cell_.looks.find(config);
    return found != cell_.looks.end() ? found->second.time_us : kUnmeasured;
  }

  const RangeCellState& cell_;
  double best_us_ = kUnmeasured, default_us_ = kUnmeasured;
};

class CellChoice {
 public:
  CellChoice(const RangeState& state, double bound, std::vector<std::string> cubins)
      : state_(state), bound_(bound), cubins_(std::move(cubins)) {
    for (const RangeCellState& cell : state.cells) looks_.emplace_back(cell);
  }

  // The fastest is of one of `cubins`, and no slower than the default.
  MeasuredConfig among_neighbours(std::size_t at, const MeasuredConfig& fastest, double best_us,
                                  const std::vector<CellNeighbour>& around) const {
    const RangeCellState& cell = state_.cells[at];
    const double scale = looks_[at].scale();
    // What is given away must not break the bound that the fastest keeps.
    const double most_us = std::min(fastest.time_us * (1 + kGivenAway * bound_),
                                    std::max(fastest.time_us, best_us * (1 + bound_)));
    const double surely_us = cell.fallback ? cell.fallback->time_us * kSurelyFaster : kUnmeasured;
    MeasuredConfig best = fastest;
    double least = badness_around(at, fastest.config, around);
    for (const auto& [config, look] : cell.looks) {
      const bool is_ours = std::find(cubins_.begin(), cubins_.end(), look.cubin) != cubins_.end();
      // Nothing is faster than what won the duel, whatever single trials say.
      const double time_us = std::max(fastest.time_us, scale * look.time_us);
      if (!is_ours || config == fastest.config || !(time_us <= std::min(most_us, surely_us))) continue;
      const double badness = badness_around(at, config, around);
      if (badness >= least) continue;
      least = badness;
      best = {config, time_us};
    }
    return best;
  }

 private:
  double badness_around(std::size_t at, const std::string& config,
                        const std::vector<CellNeighbour>& around) const {
    double sum = looks_[at].badness(config), weights = 1;
    for (const CellNeighbour& neighbour : around) {
      if (!looks_[neighbour.cell].is_known()) continue;
      sum += neighbour.weight * looks_[neighbour.cell].badness(config);
      weights += neighbour.weight;
    }
    return sum / weights;
  }

  const RangeState& state_;
  const double bound_;
  const std::vector<std::string> cubins_;
  std::vector<CellLooks> looks_;
};

RangeCertificate certificate_of(const std::vector<UnseenShape>& shapes) {
  std::vector<double> regrets, to_default;
  for (const UnseenShape& shape : shapes) {
    if (shape.failed) continue;
    regrets.push_back(shape.pick_us / shape.best_us - 1);
    if (shape.default_us > 0) to_default.push_back(shape.pick_us / shape.default_us - 1);
  }
  RangeCertificate seen = RangeCertificate::of(std::move(regrets), to_default);
  seen.failed = static_cast<std::size_t>(std::ranges::count_if(shapes, &UnseenShape::failed));
  return seen;
}

std::vector<std::size_t> past_bound_of(const std::vector<std::size_t>& cells,
                                       const std::vector<CellTimes>& times, const Cover& cover,
                                       double bound) {
  std::vector<std::pair<double, std::size_t>> losses;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const double regret = served_regret(times[i], cover.cubins);
    if (regret > bound) losses.emplace_back(-regret, cells[i]);
  }
  std::ranges::sort(losses);
  std::vector<std::size_t> worst_first;
  for (const auto& [loss, cell] : losses) worst_first.push_back(cell);
  return worst_first;
}

}  // namespace

std::vector<std::string> choosable_cubins(const RangeState& state) {
  std::vector<std::string> cubins = state.cubins;
  std::set<std::string> defaults;
  for (const RangeCellState& cell : state.cells) {
    if (cell.fallback) defaults.insert(cell.fallback_cubin);
  }
  for (const std::string& name : defaults) {
    if (std::find(cubins.begin(), cubins.end(), name) == cubins.end()) cubins.push_back(name);
  }
  return cubins;
}

RangeNeighbours neighbours_of(const std::vector<PlannedCell>& cells) {
  RangeNeighbours all(cells.size());
  for (std::size_t a = 0; a < cells.size(); ++a) {
    for (std::size_t b = 0; b < cells.size(); ++b) {
      if (a == b || cells[a].uneven != cells[b].uneven) continue;
      const double squared = grid_distance(cells[a].position, cells[b].position);
      if (squared > kNeighbourOctaves * kNeighbourOctaves) continue;
      all[a].push_back({b, 1 / (1 + 6 * squared)});
    }
  }
  return all;
}

RangeSolution solve(const RangeState& state, double bound, std::size_t variants,
                    const RangeNeighbours& neighbours) {
  const std::vector<std::string> choosable = choosable_cubins(state);
  const bool any_quiet = std::ranges::any_of(
      state.cells, [](const RangeCellState& cell) { return cell.is_measured() && !cell.contended; });
  std::vector<std::size_t> cells;
  std::vector<CellTimes> times;
  for (std::size_t i = 0; i < state.cells.size(); ++i) {
    const RangeCellState& cell = state.cells[i];
    if (!cell.is_measured() || (cell.contended && any_quiet)) continue;
    CellTimes measured = times_of(cell, choosable);
    if (!std::isfinite(measured.best_us())) continue;
    cells.push_back(i);
    times.push_back(std::move(measured));
  }
  const Cover cover = choose_cubins(times, bound, variants);
  RangeSolution solution{.picks = std::vector<RangePick>(state.cells.size())};
  for (const std::size_t place : cover.cubins) solution.cubins.push_back(choosable[place]);
  solution.past_bound = past_bound_of(cells, times, cover, bound);
  RangeTable& table = solution.table;
  table.ranges = state.ranges;
  table.bound = bound;
  table.kept = cover.within_bound;
  const CellChoice choices(state, bound, solution.cubins);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const RangeCellState& cell = state.cells[cells[i]];
    const std::optional<std::size_t> choice = best_choice(times[i], cover.cubins);
    if (!choice && !cell.fallback) continue;
    const MeasuredConfig fastest = choice ? best_of(cell, choosable[*choice]) : *cell.fallback;
    const bool has_around = choice && cells[i] < neighbours.size();
    const MeasuredConfig pick =
        has_around ? choices.among_neighbours(cells[i], fastest, times[i].best_us(), neighbours[cells[i]])
                   : fastest;
    if (!choice) ++solution.left_to_default;
    const auto look = cell.looks.find(pick.config);
    const bool is_other = look != cell.looks.end() && pick.config != fastest.config;
    solution.picks[cells[i]] = {is_other ? look->second.cubin
                                : choice ? choosable[*choice]
                                         : cell.fallback_cubin,
                                pick.config};
    table.contended = table.contended || cell.contended;
    const MeasuredConfig met = cell.fallback.value_or(MeasuredConfig{});
    table.cells.push_back(
        {cell.problem, pick.config, pick.time_us, met.time_us, times[i].best_us(), met.config});
  }
  table.certificate = certificate_of(state.shapes);
  return solution;
}

}  // namespace moetune
