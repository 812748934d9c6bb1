#include "report/kernel_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/lists.h"

namespace moetune {
namespace {

// More rows make the forest slower and hardly better.
constexpr std::size_t kMostReportedRows = 3000;
constexpr std::size_t kMaps = 4;
constexpr std::size_t kMostMapLevels = 24;  // a map with more on a side is no picture

struct RatioRow {
  std::vector<Level> levels;
  double ratio = 0;     // to the fastest of its problem
  double response = 0;  // log2 of it, less the mean of its problem
  std::size_t workload = 0;
};

struct TimedConfig {
  const ShownTrial* trial = nullptr;
  std::size_t workload = 0;  // its position
  double ratio = 0, response = 0;
};

// The timed trials of one workload; none if they say nothing.
std::vector<TimedConfig> ratios_of(const WorkloadReport& report, std::size_t position) {
  std::vector<TimedConfig> rows;
  double fastest = 0;
  for (const ShownTrial& trial : report.trials.shown) {
    if (!(trial.time_us > 0) || trial.contended) continue;
    if (fastest == 0 || trial.time_us < fastest) fastest = trial.time_us;
    rows.push_back({.trial = &trial, .workload = position});
  }
  if (rows.size() < 2) return {};
  double sum = 0;
  for (TimedConfig& row : rows) {
    row.ratio = row.trial->time_us / fastest;
    row.response = std::log2(row.ratio);
    sum += row.response;
  }
  for (TimedConfig& row : rows) row.response -= sum / static_cast<double>(rows.size());
  return rows;
}

// For each workload its levels of the factors that this adds: the dimensions in which the problems differ; without
// readable problems, the problem itself.
std::vector<std::vector<Level>> add_problem_factors(const std::vector<const WorkloadReport*>& workloads,
                                                    std::vector<Factor>& factors) {
  Factors problems = factors_of(gathered(workloads, [](const WorkloadReport* one) { return one->dims.text(); }));
  const bool readable = std::ranges::all_of(problems.rows, [](const auto& row) { return row.has_value(); });
  std::vector<std::vector<Level>> levels(workloads.size());
  if (!readable) {
    constexpr std::size_t kMostProblems = 64;
    if (workloads.size() < 2 || workloads.size() > kMostProblems) return levels;
    Factor& factor = factors.emplace_back(Factor{.name = "problem"});
    for (std::size_t w = 0; w < workloads.size(); ++w) {
      factor.levels.push_back(std::to_string(workloads[w]->stored.workload.id));
      levels[w].push_back(static_cast<Level>(w));
    }
    return levels;
  }
  for (std::size_t f = 0; f < problems.factors.size() && factors.size() < kMostFactors; ++f) {
    if (problems.factors[f].levels.size() < 2) continue;
    for (std::size_t w = 0; w < workloads.size(); ++w) levels[w].push_back((*problems.rows[w])[f]);
    problems.factors[f].name.insert(0, "problem.");
    factors.push_back(std::move(problems.factors[f]));
  }
  return levels;
}

std::vector<RatioRow> read_rows(const std::vector<const WorkloadReport*>& workloads, ParameterReport& result) {
  std::vector<TimedConfig> timed;
  for (std::size_t w = 0; w < workloads.size(); ++w) {
    const std::vector<TimedConfig> some = ratios_of(*workloads[w], w);
    timed.insert(timed.end(), some.begin(), some.end());
  }
  std::vector<TimedConfig> few;
  for (const std::size_t at : evenly_spaced(timed.size(), 4 * kMostReportedRows)) few.push_back(timed[at]);
  std::vector<std::string> configs;
  for (const TimedConfig& one : few) configs.push_back(one.trial->config);
  Factors factors = factors_of(configs);
  result.factors = std::move(factors.factors);
  result.parameters = result.factors.size();
  const std::vector<std::vector<Level>> problems = add_problem_factors(workloads, result.factors);
  std::vector<RatioRow> rows;
  for (std::size_t i = 0; i < few.size(); ++i) {
    if (!factors.rows[i]) continue;
    RatioRow& row =
        rows.emplace_back(RatioRow{*std::move(factors.rows[i]), few[i].ratio, few[i].response, few[i].workload});
    const std::vector<Level>& problem = problems[few[i].workload];
    row.levels.insert(row.levels.end(), problem.begin(), problem.end());
  }
  return rows;
}

HeatMap heat_map(const std::vector<RatioRow>& rows, const std::vector<Factor>& factors, std::size_t first,
                 std::size_t second) {
  HeatMap map{.first = first, .second = second};
  const std::size_t width = factors[second].levels.size();
  map.cells.resize(factors[first].levels.size() * width);
  std::map<std::pair<std::size_t, std::size_t>, double> best;  // by cell and problem
  for (const RatioRow& row : rows) {
    const std::size_t at = row.levels[first] * width + row.levels[second];
    ++map.cells[at].trials;
    map.cells[at].mean += std::log(row.ratio);
    const auto [found, fresh] = best.try_emplace({at, row.workload}, row.ratio);
    if (!fresh) found->second = std::min(found->second, row.ratio);
  }
  std::vector<std::size_t> problems(map.cells.size(), 0);
  for (const auto& [place, ratio] : best) {
    map.cells[place.first].best += std::log(ratio);
    ++problems[place.first];
  }
  for (std::size_t at = 0; at < map.cells.size(); ++at) {
    HeatCell& cell = map.cells[at];
    if (cell.trials == 0) continue;
    cell.mean = std::exp(cell.mean / static_cast<double>(cell.trials));
    cell.best = std::exp(cell.best / static_cast<double>(problems[at]));
  }
  return map;
}

// The pairs that explain most together: both main effects and what they add.
std::vector<Interaction> pairs_that_matter(const Importance& importance, const std::vector<Factor>& factors) {
  std::vector<double> main(factors.size(), 0);
  for (const MainEffect& effect : importance.main) main[effect.factor] = effect.share;
  std::vector<Interaction> pairs = importance.pairs;
  std::erase_if(pairs, [&](const Interaction& pair) {
    return std::max(factors[pair.first].levels.size(), factors[pair.second].levels.size()) > kMostMapLevels;
  });
  for (Interaction& pair : pairs) pair.share += main[pair.first] + main[pair.second];
  std::ranges::stable_sort(pairs, [](const Interaction& a, const Interaction& b) { return a.share > b.share; });
  if (pairs.size() > kMaps) pairs.resize(kMaps);
  return pairs;
}

}  // namespace

ParameterReport parameters_of(const std::vector<const WorkloadReport*>& workloads) {
  ParameterReport result;
  const std::vector<RatioRow> rows = read_rows(workloads, result);
  if (rows.size() < kLeastTrials) return {};
  ForestData data{.factors = &result.factors};
  for (const std::size_t at : evenly_spaced(rows.size(), kMostReportedRows)) {
    data.rows.push_back(rows[at].levels);
    data.response.push_back(rows[at].response);
  }
  result.importance = importance_of(data);
  result.trials = data.rows.size();
  // The means of the problems were taken off: what is left of them alone is noise.
  std::erase_if(result.importance.main, [&](const MainEffect& effect) { return effect.factor >= result.parameters; });
  std::erase_if(result.importance.pairs, [&](const Interaction& pair) {
    return pair.first >= result.parameters && pair.second >= result.parameters;
  });
  for (const Interaction& pair : pairs_that_matter(result.importance, result.factors))
    result.maps.push_back(heat_map(rows, result.factors, pair.first, pair.second));
  return result;
}

}  // namespace moetune
