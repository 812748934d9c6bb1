#include "bench/search_bench_print.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/search_bench_score.h"

namespace moetune::bench {
namespace {

struct Summary {
  std::array<double, kBudgets.size()> median{};
  std::array<double, kBudgets.size()> mean{};
  std::array<double, kBudgets.size()> within_5{};
  double worst_p90 = 0;
  double over_random = 0;
  double engine_ms = 0;
};

Summary summarize(const std::vector<Score>& scores, const std::vector<const Runs*>& runs) {
  Summary summary;
  const auto count = static_cast<double>(scores.size());
  for (std::size_t b = 0; b < kBudgets.size(); ++b) {
    std::vector<double> medians, means;
    for (const Score& score : scores) {
      medians.push_back(score.median[b]);
      means.push_back(score.mean[b]);
      summary.within_5[b] += score.within_5[b] / count;
    }
    summary.median[b] = geometric_mean(medians);
    summary.mean[b] = geometric_mean(means);
  }
  for (std::size_t i = 0; i < scores.size(); ++i) {
    summary.worst_p90 = std::max(summary.worst_p90, scores[i].p90);
    summary.over_random += scores[i].over_random / count;
    summary.engine_ms += runs[i]->engine_ms_per_trial / count;
  }
  return summary;
}

std::vector<const Runs*> of_strategy(const std::vector<Runs>& all, const std::string& strategy) {
  std::vector<const Runs*> found;
  for (const Runs& runs : all) {
    if (runs.strategy == strategy) found.push_back(&runs);
  }
  return found;
}

std::vector<Score> scores_of(const std::vector<const Runs*>& runs, const std::vector<RecordedSpace>& spaces) {
  std::vector<Score> scores;
  for (const Runs* one : runs) scores.push_back(score(*one, spaces[one->space]));
  return scores;
}

void print_header(const char* first) {
  std::printf("%-36s", first);
  for (const std::size_t budget : kBudgets) std::printf(" %7zu", budget);
  std::printf("  %7s", "p90");
  for (const std::size_t budget : kBudgets) std::printf(" %5zu", budget);
  std::printf("  %7s %9s\n", "score", "ms/trial");
}

template <typename Row>
void print_row(const std::string& name, const Row& row, double p90, double engine_ms) {
  std::printf("%-36s", name.c_str());
  for (const double median : row.median) std::printf(" %7.4f", median);
  std::printf("  %7.4f", p90);
  for (const double share : row.within_5) std::printf(" %4.0f%%", 100 * share);
  std::printf("  %7.3f %9.3f\n", row.over_random, engine_ms);
}

}  // namespace

void print_tables(const Plan& plan, const std::vector<RecordedSpace>& spaces, const std::vector<Runs>& all) {
  std::printf(
      "%zu spaces, %zu seeds from %llu, %zu in flight, %zu trials. Best time over optimum: median by trials, "
      "90th percentile at the last; share of runs within 5%% by trials; score over random; engine cost.\n",
      spaces.size(), plan.seeds, static_cast<unsigned long long>(plan.first_seed), plan.in_flight, plan.budget);
  for (const std::string& strategy : plan.strategies) {
    const std::vector<const Runs*> runs = of_strategy(all, strategy);
    const std::vector<Score> scores = scores_of(runs, spaces);
    std::printf("\n");
    print_header(strategy.c_str());
    for (std::size_t i = 0; i < runs.size(); ++i)
      print_row("  " + spaces[runs[i]->space].name, scores[i], scores[i].p90, runs[i]->engine_ms_per_trial);
  }
  std::printf("\n");
  print_header("all spaces");
  for (const std::string& strategy : plan.strategies) {
    const std::vector<const Runs*> runs = of_strategy(all, strategy);
    const Summary summary = summarize(scores_of(runs, spaces), runs);
    print_row(strategy, summary, summary.worst_p90, summary.engine_ms);
  }
  std::printf("(all spaces: geometric mean of the medians, worst 90th percentile, means of the rest)\n");
  for (const std::string& strategy : plan.strategies) {
    const std::vector<const Runs*> runs = of_strategy(all, strategy);
    std::printf("%s, geometric mean of the means:", strategy.c_str());
    for (const double mean : summarize(scores_of(runs, spaces), runs).mean) std::printf(" %.4f", mean);
    std::printf("\n");
  }
}

nlohmann::json to_json(const Plan& plan, const std::vector<RecordedSpace>& spaces, const std::vector<Runs>& all) {
  nlohmann::json out = {{"seeds", plan.seeds},
                        {"first_seed", plan.first_seed},
                        {"budget", plan.budget},
                        {"in_flight", plan.in_flight},
                        {"budgets", kBudgets},
                        {"spaces", nlohmann::json::array()},
                        {"runs", nlohmann::json::array()},
                        {"strategies", nlohmann::json::array()}};
  for (const RecordedSpace& space : spaces) {
    out["spaces"].push_back({{"name", space.name},
                             {"configurations", space.space.size()},
                             {"optimum_us", space.optimum_us},
                             {"cut_off", cut_off(space, plan.budget)}});
  }
  for (const Runs& runs : all) {
    const Score result = score(runs, spaces[runs.space]);
    nlohmann::json finals = nlohmann::json::array();
    for (const std::vector<double>& curve : runs.best_us)
      finals.push_back(curve.back() / spaces[runs.space].optimum_us);
    out["runs"].push_back({{"strategy", runs.strategy},
                           {"space", spaces[runs.space].name},
                           {"median", result.median},
                           {"mean", result.mean},
                           {"p90", result.p90},
                           {"within_5_percent", result.within_5},
                           {"score", result.over_random},
                           {"engine_ms_per_trial", runs.engine_ms_per_trial},
                           {"final", std::move(finals)}});
  }
  for (const std::string& strategy : plan.strategies) {
    const std::vector<const Runs*> runs = of_strategy(all, strategy);
    const Summary summary = summarize(scores_of(runs, spaces), runs);
    out["strategies"].push_back({{"strategy", strategy},
                                 {"geometric_mean_of_medians", summary.median},
                                 {"geometric_mean_of_means", summary.mean},
                                 {"within_5_percent", summary.within_5},
                                 {"worst_p90", summary.worst_p90},
                                 {"score", summary.over_random},
                                 {"engine_ms_per_trial", summary.engine_ms}});
  }
  return out;
}

}  // namespace moetune::bench
