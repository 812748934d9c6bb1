#include "bench/search_bench_warm.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/lists.h"
#include "base/resources.h"
#include "bench/search_bench_jobs.h"
#include "bench/search_bench_score.h"
#include "kernels/registry.h"
#include "tests/search/simulation.h"
#include "tuner/history.h"

namespace moetune::bench {
namespace {

constexpr std::uint64_t kOtherSeeds = 1000;  // from a search's seed to those of the searches that it knows

// The curves of one space, by seed.
struct Curves {
  std::vector<std::vector<double>> cold, warm, misled;
  std::vector<double> winner_regret;  // of the nearest history's best; 0 where it is not legal here
};

class WarmStarts {
 public:
  WarmStarts(const Plan& plan, const std::vector<RecordedSpace>& spaces, bool other_hardware)
      : plan_(plan), spaces_(spaces), other_hardware_(other_hardware) {
    for (const RecordedSpace& space : spaces) {
      const std::string path = "spaces/" + space.key.kernel + ".json";
      if (space.limits.sm_count > 0 && !files_.contains(space.key.kernel))
        files_.emplace(space.key.kernel, Space::parse(read_resource(path), path));
    }
  }

  std::vector<Curves> run() {
    past_.resize(spaces_.size() * plan_.seeds);
    in_parallel([&](std::size_t s, std::size_t k) {
      past_[s * plan_.seeds + k] = cold_search(spaces_[s], seed(k) + kOtherSeeds);
    });
    const std::vector<std::vector<double>> none(plan_.seeds);
    std::vector<Curves> all(spaces_.size(), Curves{none, none, none, {}});
    for (Curves& curves : all) curves.winner_regret.resize(plan_.seeds);
    in_parallel([&](std::size_t s, std::size_t k) {
      if (history_count(s) == 0) return;
      std::vector<History> histories = known_histories(s, k);
      all[s].winner_regret[k] = winner_regret(spaces_[s], histories);
      all[s].cold[k] = search(spaces_[s], seed(k), {}).best_us;
      all[s].warm[k] = search(spaces_[s], seed(k), histories).best_us;
      for (History& history : histories) invert_times(history);
      all[s].misled[k] = search(spaces_[s], seed(k), histories).best_us;
    });
    return all;
  }

  std::size_t history_count(std::size_t s) const { return neighbours(s).size(); }

 private:
  std::uint64_t seed(std::size_t k) const { return plan_.first_seed + k; }

  void in_parallel(const std::function<void(std::size_t space, std::size_t seed)>& work) const {
    run_jobs(spaces_.size() * plan_.seeds, plan_.threads,
             [&](std::size_t job) { work(job / plan_.seeds, job % plan_.seeds); });
  }

  std::vector<Observation> cold_search(const RecordedSpace& space, std::uint64_t seed) const {
    const auto searcher = make_searcher("auto", space.space, seed);
    std::vector<Observation> told;
    for (const ConfigId id : simulate(*searcher, space.outcomes, plan_.budget, plan_.in_flight).asked)
      told.push_back(space.outcomes[id]);
    return told;
  }

  SimulatedRun search(const RecordedSpace& space, std::uint64_t seed, const std::vector<History>& histories) const {
    const auto searcher = make_searcher("auto", space.space, seed);
    searcher->warm(histories);
    return simulate(*searcher, space.outcomes, plan_.budget, plan_.in_flight);
  }

  // The other spaces of the same kernel, nearest first.
  std::vector<std::size_t> neighbours(std::size_t here) const {
    std::vector<std::pair<double, std::size_t>> found;
    for (std::size_t s = 0; s < spaces_.size(); ++s) {
      const bool allowed = !other_hardware_ || spaces_[s].key.hardware.text() != spaces_[here].key.hardware.text();
      if (s != here && allowed && spaces_[s].key.kernel == spaces_[here].key.kernel)
        found.emplace_back(workload_distance(spaces_[here].key, spaces_[s].key), s);
    }
    std::sort(found.begin(), found.end());
    std::vector<std::size_t> order;
    for (const auto& [distance, s] : found) order.push_back(s);
    return order;
  }

  // The histories that a cache would give if it held a cold search of every other space.
  std::vector<History> known_histories(std::size_t here, std::size_t k) const {
    const RecordedSpace& space = spaces_[here];
    std::vector<History> histories;
    for (const std::size_t s : neighbours(here)) {
      const RecordedSpace& other = spaces_[s];
      std::optional<Transfer> transfer = transfer_from(other, space);
      History history{.distance = workload_distance(space.key, other.key)};
      for (const Observation& trial : past_[s * plan_.seeds + k]) {
        auto point = space.space.point_of(other.space.config(trial.id).text());
        if (point && transfer) point = (*transfer)(*point, space.space);
        if (point) history.trials.push_back({*std::move(point), trial.outcome, trial.time_us});
      }
      if (!history.trials.empty()) histories.push_back(std::move(history));
    }
    if (histories.size() > kMostHistories) histories.resize(kMostHistories);
    return histories;
  }

  std::optional<Transfer> transfer_from(const RecordedSpace& there, const RecordedSpace& here) const {
    const auto file = files_.find(here.key.kernel);
    if (file == files_.end()) return std::nullopt;
    return transfer_between({&find_kernel(here.key.kernel), &file->second, here.limits}, there.key, here.key,
                            here.space);
  }

  static double winner_regret(const RecordedSpace& space, const std::vector<History>& histories) {
    if (histories.empty()) return 0;
    const PastTrial* winner = nullptr;
    for (const PastTrial& trial : histories.front().trials) {
      const bool timed = has_usable_time({0, trial.outcome, trial.time_us});
      if (timed && (winner == nullptr || trial.time_us < winner->time_us)) winner = &trial;
    }
    const auto id = winner != nullptr ? space.space.find(winner->point) : std::nullopt;
    return id && has_usable_time(space.outcomes[*id]) ? space.outcomes[*id].time_us / space.optimum_us : 0;
  }

  // The slowest becomes the fastest: experience as wrong as it gets.
  static void invert_times(History& history) {
    for (PastTrial& trial : history.trials) {
      if (has_usable_time({0, trial.outcome, trial.time_us})) trial.time_us = 1e4 / trial.time_us;
    }
  }

  const Plan& plan_;
  const std::vector<RecordedSpace>& spaces_;
  std::map<std::string, Space> files_;  // by kernel
  bool other_hardware_;
  std::vector<std::vector<Observation>> past_;  // what a cold search was told, by space and seed
};

double trials_to_2_percent(const std::vector<double>& curve) {
  std::size_t trial = 0;
  while (curve[trial] > 1.02 * curve.back()) ++trial;
  return static_cast<double>(trial + 1);
}

double median_trials(const std::vector<std::vector<double>>& curves) {
  return quantile(gathered(curves, trials_to_2_percent), 0.5);
}

nlohmann::json print_regrets(const char* name, const std::vector<std::vector<double>>& curves, double optimum_us) {
  std::printf("    %-8s", name);
  nlohmann::json out = {{"trials_to_2_percent", median_trials(curves)}, {"median", nlohmann::json::array()}};
  for (const std::size_t budget : kBudgets) {
    std::vector<double> regrets;
    for (const std::vector<double>& curve : curves)
      regrets.push_back(curve[std::min(budget, curve.size()) - 1] / optimum_us);
    std::printf("  %6.4f", quantile(regrets, 0.5));
    out["median"].push_back(quantile(regrets, 0.5));
    if (budget != kBudgets.back()) continue;
    std::printf("  %6.4f", quantile(regrets, 0.9));
    out["p90"] = quantile(regrets, 0.9);
  }
  std::printf("\n");
  return out;
}

nlohmann::json print_space(const RecordedSpace& space, std::size_t histories, const Curves& curves) {
  const double cold = median_trials(curves.cold), warm = median_trials(curves.warm);
  std::printf("%s, %zu histories: cold %.1f trials, warm %.1f, %.2f of them\n", space.name.c_str(), histories, cold,
              warm, warm / cold);
  std::vector<double> legal = curves.winner_regret;
  std::erase(legal, 0.0);
  nlohmann::json out = {{"space", space.name}, {"histories", histories}, {"ratio", warm / cold}};
  if (!legal.empty()) {
    out["winner_from_elsewhere"] = {{"median", quantile(legal, 0.5)}, {"worst", quantile(legal, 1)}};
    std::printf("    the nearest history's winner, here: %.4f, at worst %.4f of the optimum\n", quantile(legal, 0.5),
                quantile(legal, 1));
  }
  out["cold"] = print_regrets("cold", curves.cold, space.optimum_us);
  out["warm"] = print_regrets("warm", curves.warm, space.optimum_us);
  out["misled"] = print_regrets("misled", curves.misled, space.optimum_us);
  return out;
}

}  // namespace

nlohmann::json print_warm(const Plan& plan, const std::vector<RecordedSpace>& spaces, bool other_hardware) {
  WarmStarts starts(plan, spaces, other_hardware);
  std::size_t warm = 0;
  for (std::size_t s = 0; s < spaces.size(); ++s) warm += starts.history_count(s) > 0;
  if (warm == 0) throw BadInput("no space has a recording from elsewhere that it may know");
  const std::vector<Curves> all = starts.run();
  std::printf(
      "Trials until within 2%% of the search's own final best, medians of %zu seeds; then the regret after %zu, %zu, "
      "%zu and %zu trials, and its 90th percentile at the last. Misled: told that what was slow elsewhere was fast.\n",
      plan.seeds, kBudgets[0], kBudgets[1], kBudgets[2], kBudgets[3]);
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t s = 0; s < spaces.size(); ++s) {
    if (starts.history_count(s) > 0) {
      rows.push_back(print_space(spaces[s], starts.history_count(s), all[s]));
    } else {
      std::printf("%s: no recording that it may know\n", spaces[s].name.c_str());
    }
  }
  return rows;
}

}  // namespace moetune::bench
