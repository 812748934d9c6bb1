#include "bench/search_bench_warm.h"

#include <cstdio>

#include "bench/search_bench_score.h"
#include "search/simulation.h"

namespace moetune::bench {
namespace {

bool same_parameters(const LegalSpace& a, const LegalSpace& b) {
  if (a.parameters().size() != b.parameters().size()) return false;
  for (std::size_t p = 0; p < a.parameters().size(); ++p) {
    if (a.parameters()[p].name != b.parameters()[p].name) return false;
  }
  return true;
}

SimulatedRun search(const Plan& plan, const RecordedSpace& space, std::uint64_t seed,
                    const std::vector<History>& histories) {
  const auto searcher = make_searcher("auto", space.space, seed);
  searcher->warm(histories);
  return simulate(*searcher, space.outcomes, plan.budget, plan.in_flight);
}

// A cold search elsewhere, in the domains of `here`.
History history_of(const Plan& plan, const RecordedSpace& elsewhere, const RecordedSpace& here,
                   std::uint64_t seed) {
  History history;
  for (const ConfigId id : search(plan, elsewhere, seed, {}).asked) {
    const Observation& trial = elsewhere.outcomes[id];
    auto point = here.space.point_of(elsewhere.space.config(id).text());
    if (point) history.trials.push_back({*std::move(point), trial.outcome, trial.time_us});
  }
  return history;
}

double trials_to_2_percent(const std::vector<double>& curve) {
  std::size_t trial = 0;
  while (curve[trial] > 1.02 * curve.back()) ++trial;
  return static_cast<double>(trial + 1);
}

}  // namespace

void print_warm(const Plan& plan, const std::vector<RecordedSpace>& spaces) {
  std::printf("%-36s %9s | %12s %12s | %14s %14s\n", "space", "histories", "trials cold", "trials warm",
              "regret@25 cold", "regret@25 warm");
  for (const RecordedSpace& here : spaces) {
    std::vector<double> cold_trials, warm_trials, cold_regret, warm_regret;
    std::size_t sources = 0;
    for (std::uint64_t seed = plan.first_seed; seed < plan.first_seed + plan.seeds; ++seed) {
      std::vector<History> histories;
      for (const RecordedSpace& other : spaces) {
        if (&other != &here && same_parameters(other.space, here.space))
          histories.push_back(history_of(plan, other, here, seed + 1000));
      }
      sources = histories.size();
      const std::vector<double> cold = search(plan, here, seed, {}).best_us;
      const std::vector<double> warm = search(plan, here, seed, histories).best_us;
      cold_trials.push_back(trials_to_2_percent(cold));
      warm_trials.push_back(trials_to_2_percent(warm));
      cold_regret.push_back(cold[std::min<std::size_t>(25, cold.size()) - 1] / here.optimum_us);
      warm_regret.push_back(warm[std::min<std::size_t>(25, warm.size()) - 1] / here.optimum_us);
    }
    std::printf("%-36s %9zu | %12.1f %12.1f | %14.4f %14.4f\n", here.name.c_str(), sources,
                quantile(cold_trials, 0.5), quantile(warm_trials, 0.5), quantile(cold_regret, 0.5),
                quantile(warm_regret, 0.5));
  }
}

}  // namespace moetune::bench
