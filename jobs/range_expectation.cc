#include "jobs/range_expectation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/parallel.h"
#include "jobs/launch_times.h"
#include "ranges/time_model.h"

namespace moetune {
namespace {

constexpr std::size_t kLeastCells = 12;  // of a kind of work, for a model of it
// Candidates at a point: what was within this of the fastest in one of so many cells around it.
constexpr double kCandidateWithin = 1.1;
constexpr std::size_t kCellsAround = 10;
// What was slower than this in the nearest of them that tried it comes behind all others: the model leaves out times
// that are far from the fastest, and would go by the good ones behind it.
constexpr double kRuledOutFrom = 1.15;
constexpr double kRuledOut = 10;  // in logarithms of times
// Times are fitted to what is no slower than this there.
constexpr double kTellingWithin = 1.5;
// Choices are expected so far from a measured cell on each axis, in octaves.
constexpr double kExpectedReach = 1.5;
// The nearest cell's choice and the default serve if nothing is expected to be faster by so much: the one was measured,
// the other has rules for every shape, and what is served should not lose to it. The default's margin grows with each
// octave beyond kSureWithin to the nearest cell; octaves of the first axis count twice.
constexpr double kFasterThanNearest = 0.005, kFasterThanDefault = 0.01, kSureWithin = 1, kPerOctave = 0.04;
// Steps of a grid's first axis, which counts what blocks are made of, and of the others, in octaves; the most
// coordinates by the number of axes.
constexpr double kCountedStep = 0.085, kOtherStep = 0.25;
constexpr std::size_t kMostCounted[] = {0, 128, 104, 24}, kMostOther[] = {0, 0, 44, 24};

std::vector<double> logarithms(const GridPoint& position) {
  std::vector<double> logs;
  for (const std::int64_t coordinate : position) logs.push_back(std::log2(static_cast<double>(coordinate)));
  return logs;
}

// Configurations of the table's cubins, as the model knows them.
class KnownConfigs {
 public:
  KnownConfigs(const Space& space, const CellMeter& meter, const std::vector<std::string>& cubins,
               const std::vector<std::string>& withdrawn)
      : space_(space), meter_(meter), cubins_(cubins), withdrawn_(withdrawn) {}

  // nullopt for one of another cubin, or that was withdrawn.
  std::optional<std::size_t> place_of(const std::string& text) {
    const auto [known, is_new] = places_.try_emplace(text);
    if (!is_new || std::ranges::find(withdrawn_, text) != withdrawn_.end()) return known->second;
    Config config = space_.parse_config(text);
    const auto cubin = std::ranges::find(cubins_, meter_.cubin_of(config));
    if (cubin == cubins_.end()) return std::nullopt;
    known->second = configs.size();
    texts.push_back(text);
    models.push_back(model_of(config, static_cast<std::size_t>(cubin - cubins_.begin())));
    configs.push_back(std::move(config));
    return known->second;
  }

  std::vector<std::string> texts;
  std::vector<Config> configs;
  std::vector<TimeModel::Config> models;

 private:
  TimeModel::Config model_of(const Config& config, std::size_t cubin) const {
    TimeModel::Config model{.cubin = cubin, .numbers = {}, .names = {}};
    for (const Parameter& parameter : space_.parameters()) {
      if (!parameter.at_launch) continue;
      const Value& value = config.at(parameter.name);
      if (parameter.is_named())
        model.names.push_back(static_cast<std::size_t>(value.number));
      else
        model.numbers.push_back(std::log2(1 + static_cast<double>(std::max<std::int64_t>(0, value.number))));
    }
    return model;
  }

  const Space& space_;
  const CellMeter& meter_;
  const std::vector<std::string>& cubins_;
  const std::vector<std::string>& withdrawn_;
  std::map<std::string, std::optional<std::size_t>> places_;
};

// A measured cell, and what runs well there.
struct KnownCell {
  GridPoint position;
  std::optional<std::size_t> pick;  // nullopt if its neighbours serve it
  std::vector<std::size_t> fast;
  std::map<std::string, bool> ruled_out;  // what was tried, by its text
};

// One kind of work.
class KindExpectation {
 public:
  KindExpectation(const Session& session, const RangePlan& plan, const CellMeter& meter,
                  KnownConfigs& configs, bool uneven)
      : session_(session),
        plan_(plan),
        meter_(meter),
        configs_(configs),
        uneven_(uneven),
        times_(configs.models, meter.sm_count(), !uneven) {}

  void learn(const RangeState& state, const RangeSolution& solution) {
    for (std::size_t i = 0; i < plan_.cells().size(); ++i) {
      const PlannedCell& cell = plan_.cells()[i];
      const std::string& pick = solution.picks[i].config;
      const bool is_left =
          std::ranges::find(solution.left_to_neighbours, i) != solution.left_to_neighbours.end();
      if (cell.uneven == uneven_ && (is_left || !pick.empty())) learn(state.cells[i], cell, pick);
    }
  }

  // False if too little is known, or there are too many points. All configurations are known then.
  bool plan_grid() {
    if (cells_.size() < kLeastCells) return false;
    axes_ = axes();
    grid_ = grid_points(axes_);
    if (grid_.size() > ExpectedGrid::kMostPoints) return false;
    for (const GridPoint& point : grid_) note_default(point);
    return true;
  }

  void fit_times(std::size_t threads) { times_.fit(threads); }
  void make_model() {
    std::vector<TimeModel::Point> points;
    for (const LearntPoint& learnt : learnt_) {
      CubinTimes::AtProblem at(times_);
      TimeModel::Point& point = points.emplace_back(TimeModel::Point{learnt.position, {}});
      for (const LaunchTimes::Timed& one : learnt.times)
        point.times.push_back({launched(one.launch, at), one.time_us});
    }
    model_.emplace(configs_.models, points);
  }

  ExpectedGrid grid(std::size_t threads) const {
    ExpectedGrid grid{.uneven = uneven_, .axes = axes_, .choices = {}};
    grid.choices.assign(grid_.size(), ExpectedGrid::kNone);
    parallel_for(grid_.size(), threads, [&](std::size_t i) { grid.choices[i] = choice_at(grid_[i]); });
    return grid;
  }

 private:
  // A measured cell's times.
  struct LearntPoint {
    std::vector<double> position;
    std::vector<LaunchTimes::Timed> times;
  };

  void learn(const RangeCellState& state, const PlannedCell& cell, const std::string& pick) {
    LearntPoint point{.position = logarithms(cell.position), .times = {}};
    KnownCell known{.position = cell.position, .pick = std::nullopt, .fast = {}, .ruled_out = {}};
    if (!pick.empty()) known.pick = configs_.place_of(pick);
    double fastest = std::numeric_limits<double>::infinity();
    SharedLoads loads;
    for (const auto& [text, look] : state.looks) {
      const std::optional<std::size_t> config =
          std::isfinite(look.time_us) && look.time_us > 0 ? configs_.place_of(text) : std::nullopt;
      std::optional<LaunchTimes::Launch> launch =
          config ? launch_at(*config, cell.problem, loads) : std::nullopt;
      if (!launch) continue;
      point.times.push_back({std::move(*launch), look.time_us});
      fastest = std::min(fastest, look.time_us);
    }
    if (point.times.empty()) return;
    for (const LaunchTimes::Timed& one : point.times) {
      if (one.time_us <= kCandidateWithin * fastest) known.fast.push_back(one.launch.config);
      if (one.launch.loads && one.time_us <= kTellingWithin * fastest) times_.add(one);
    }
    for (const auto& [text, look] : state.looks)
      known.ruled_out[text] = look.time_us > kRuledOutFrom * fastest;
    learnt_.push_back(std::move(point));
    cells_.push_back(std::move(known));
  }

  std::optional<LaunchTimes::Launch> launch_at(std::size_t config, const Problem& problem,
                                               SharedLoads& loads) const {
    const Config& launched = configs_.configs[config];
    try {
      return LaunchTimes::Launch{config, meter_.waves_of(launched, problem),
                                 loads.share(meter_.loads_of(launched, problem))};
    } catch (const BadInput&) {  // it cannot be launched there
      return std::nullopt;
    }
  }

  static TimeModel::Launched launched(const LaunchTimes::Launch& launch, CubinTimes::AtProblem& at) {
    return {launch.config, launch.waves, at.mean_of(launch)};
  }

  std::vector<std::vector<std::int64_t>> axes() const {
    const std::size_t count = cells_.front().position.size();
    std::vector<std::vector<std::int64_t>> axes;
    for (std::size_t axis = 0; axis < count; ++axis) {
      std::vector<std::int64_t> coordinates;
      for (const KnownCell& cell : cells_) coordinates.push_back(cell.position[axis]);
      const auto middle = [&](std::int64_t a, std::int64_t b) {
        return plan_.coordinate_between(a, b, axis, cells_.front().position, uneven_);
      };
      axes.push_back(finer_axis(std::move(coordinates), axis == 0 ? kCountedStep : kOtherStep,
                                (axis == 0 ? kMostCounted : kMostOther)[count], middle));
    }
    return axes;
  }

  // The cells within reach of a point, the nearest first, with their distances in octaves, of which those of the first
  // axis count twice.
  std::vector<std::pair<double, const KnownCell*>> cells_around(const GridPoint& position) const {
    std::vector<std::pair<double, const KnownCell*>> cells;
    for (const KnownCell& cell : cells_) {
      double away = 0, most = 0;
      for (std::size_t axis = 0; axis < position.size(); ++axis) {
        const double here = octaves_between(cell.position[axis], position[axis]);
        most = std::max(most, here);
        away += (axis == 0 ? 2 : 1) * here;
      }
      if (most <= kExpectedReach) cells.emplace_back(away, &cell);
    }
    const std::size_t wanted = std::min(kCellsAround, cells.size());
    std::ranges::partial_sort(cells, cells.begin() + static_cast<std::ptrdiff_t>(wanted));
    cells.resize(wanted);
    return cells;
  }

  using Around = std::vector<std::pair<double, const KnownCell*>>;
  bool is_ruled_out(std::size_t config, const Around& around) const {
    for (const auto& [distance, cell] : around) {
      const auto tried = cell->ruled_out.find(configs_.texts[config]);
      if (tried != cell->ruled_out.end()) return tried->second;
    }
    return false;
  }

  void note_default(const GridPoint& position);
  std::uint32_t choice_at(const GridPoint& position) const;

  const Session& session_;
  const RangePlan& plan_;
  const CellMeter& meter_;
  KnownConfigs& configs_;
  const bool uneven_;
  std::vector<KnownCell> cells_;
  CubinTimes times_;
  std::vector<LearntPoint> learnt_;  // of cells_
  std::vector<std::vector<std::int64_t>> axes_;
  std::vector<GridPoint> grid_;
  std::optional<TimeModel> model_;
  struct AtPoint {
    std::optional<Problem> problem;
    std::optional<std::size_t> fallback;  // the default's configuration
  };
  std::map<GridPoint, AtPoint> at_points_;
};

// Before the model is made, which must know all configurations.
void KindExpectation::note_default(const GridPoint& position) {
  AtPoint& at = at_points_[position];
  at.problem = plan_.problem_of_position(position, uneven_);
  if (!at.problem) return;
  const Assignment environment = expression_environment(*at.problem, session_.info().limits);
  const std::optional<Config> fallback = session_.space_file()->default_config(environment);
  if (fallback) at.fallback = configs_.place_of(fallback->text());
}

std::uint32_t KindExpectation::choice_at(const GridPoint& position) const {
  const AtPoint& at = at_points_.at(position);
  const std::vector<std::pair<double, const KnownCell*>> around = cells_around(position);
  if (!at.problem || around.empty()) return ExpectedGrid::kNone;
  const double away = around.front().first;
  const auto serving =
      std::ranges::find_if(around, [](const auto& one) { return one.second->pick.has_value(); });
  const std::optional<std::size_t> nearest = serving != around.end() ? serving->second->pick : std::nullopt;
  const double of_default = kFasterThanDefault + kPerOctave * std::max(0.0, away - kSureWithin);
  std::vector<std::size_t> candidates;
  for (const auto& [distance, cell] : around)
    candidates.insert(candidates.end(), cell->fast.begin(), cell->fast.end());
  for (const std::optional<std::size_t>& one : {nearest, at.fallback}) {
    if (one) candidates.push_back(*one);
  }
  std::ranges::sort(candidates);
  candidates.erase(std::ranges::unique(candidates).begin(), candidates.end());
  std::vector<TimeModel::Launched> launches;
  SharedLoads loads;
  CubinTimes::AtProblem means(times_);
  for (const std::size_t config : candidates) {
    if (const std::optional<LaunchTimes::Launch> launch = launch_at(config, *at.problem, loads))
      launches.push_back(launched(*launch, means));
  }
  std::vector<double> expected = model_->expect(logarithms(position), launches);
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const bool is_default = launches[i].config == at.fallback;
    if (launches[i].config != nearest && is_ruled_out(launches[i].config, around)) expected[i] += kRuledOut;
    if (is_default || launches[i].config == nearest)
      expected[i] -= is_default ? of_default : kFasterThanNearest;
  }
  std::vector<std::size_t> order(launches.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return expected[i]; });
  const Assignment environment = expression_environment(*at.problem, session_.info().limits);
  for (const std::size_t i : order) {
    const std::size_t config = launches[i].config;
    if (session_.space_file()->why_illegal(configs_.configs[config], environment).empty())
      return static_cast<std::uint32_t>(config);
  }
  return ExpectedGrid::kNone;
}

// Leaves the ends, and between them as many as a grid may have, evenly.
void thin_out(std::vector<std::int64_t>& coordinates) {
  constexpr std::size_t kMost = ExpectedGrid::kMostCoordinates;
  if (coordinates.size() <= kMost) return;
  const std::size_t last = coordinates.size() - 1;
  for (std::size_t i = 0; i < kMost; ++i) coordinates[i] = coordinates[i * last / (kMost - 1)];
  coordinates.resize(kMost);
}

}  // namespace

std::vector<std::int64_t> finer_axis(
    std::vector<std::int64_t> of_cells, double octaves_apart, std::size_t most,
    const std::function<std::optional<std::int64_t>(std::int64_t, std::int64_t)>& middle) {
  std::ranges::sort(of_cells);
  of_cells.erase(std::ranges::unique(of_cells).begin(), of_cells.end());
  thin_out(of_cells);
  std::vector<std::int64_t> closed;  // the lower ends of gaps that nothing lies in
  while (of_cells.size() < most) {
    std::size_t widest = of_cells.size();
    double gap = octaves_apart;
    for (std::size_t i = 0; i + 1 < of_cells.size(); ++i) {
      const double here = octaves_between(of_cells[i], of_cells[i + 1]);
      if (here <= gap || std::ranges::find(closed, of_cells[i]) != closed.end()) continue;
      gap = here;
      widest = i;
    }
    if (widest == of_cells.size()) break;
    const std::optional<std::int64_t> between = middle(of_cells[widest], of_cells[widest + 1]);
    if (between)
      of_cells.insert(of_cells.begin() + static_cast<std::ptrdiff_t>(widest) + 1, *between);
    else
      closed.push_back(of_cells[widest]);
  }
  return of_cells;
}

ExpectedChoices RangeExpectation::of(const RangeState& state, const RangeSolution& solution) const {
  ExpectedChoices expected;
  // Only what serves some cell: a table comes with the cubins of its cells.
  std::vector<std::string> cubins;
  for (const std::string& name : solution.cubins) {
    if (std::ranges::find(solution.picks, name, &RangePick::cubin) != solution.picks.end())
      cubins.push_back(name);
  }
  KnownConfigs configs(*session_.space_file(), meter_, cubins, state.withdrawn);
  std::vector<KindExpectation> kinds;
  for (const bool uneven : {false, true}) {
    KindExpectation kind(session_, plan_, meter_, configs, uneven);
    kind.learn(state, solution);
    if (kind.plan_grid()) kinds.push_back(std::move(kind));
  }
  for (KindExpectation& kind : kinds) kind.fit_times(threads_);
  parallel_for(kinds.size(), threads_, [&](std::size_t i) { kinds[i].make_model(); });
  for (const KindExpectation& kind : kinds) expected.grids.push_back(kind.grid(threads_));
  expected.configs = configs.texts;
  expected.keep([](const std::string&) { return true; });
  if (expected.configs.size() > ExpectedChoices::kMostConfigs) return {};
  return expected;
}

}  // namespace moetune
