#include "bench/search_bench_warm.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <map>
#include <thread>

#include "base/resources.h"
#include "bench/search_bench_score.h"
#include "kernels/registry.h"
#include "search/simulation.h"
#include "tuner/history.h"

namespace moetune::bench {
namespace {

constexpr std::uint64_t kOtherSeeds = 1000;  // from a search's seed to those of the searches that it knows

// The curves of one space, by seed.
struct Curves {
  std::vector<std::vector<double>> cold, warm, misled;
};

class WarmStarts {
 public:
  WarmStarts(const Plan& plan, const std::vector<RecordedSpace>& spaces) : plan_(plan), spaces_(spaces) {
    for (const RecordedSpace& space : spaces) {
      const std::string path = "spaces/" + space.key.kernel + ".json";
      if (space.limits.sm_count > 0 && !files_.contains(space.key.kernel))
        files_.emplace(space.key.kernel, Space::parse(read_resource(path), path));
    }
  }

  std::vector<Curves> run() {
    past_.resize(spaces_.size() * plan_.seeds);
    in_parallel([&](std::size_t s, std::size_t k) {
      past_[s * plan_.seeds + k] = search(spaces_[s], seed(k) + kOtherSeeds, {}).asked;
    });
    const Curves empty{std::vector<std::vector<double>>(plan_.seeds),
                       std::vector<std::vector<double>>(plan_.seeds),
                       std::vector<std::vector<double>>(plan_.seeds)};
    std::vector<Curves> all(spaces_.size(), empty);
    in_parallel([&](std::size_t s, std::size_t k) {
      std::vector<History> histories = known_to(s, k);
      all[s].cold[k] = search(spaces_[s], seed(k), {}).best_us;
      all[s].warm[k] = search(spaces_[s], seed(k), histories).best_us;
      for (History& history : histories) turn_over(history);
      all[s].misled[k] = search(spaces_[s], seed(k), histories).best_us;
    });
    return all;
  }

  std::size_t known_count(std::size_t s) const { return neighbours(s).size(); }

 private:
  std::uint64_t seed(std::size_t k) const { return plan_.first_seed + k; }

  void in_parallel(const std::function<void(std::size_t space, std::size_t seed)>& work) const {
    std::atomic<std::size_t> next{0};
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < std::max<std::size_t>(plan_.threads, 1); ++t) {
      threads.emplace_back([&] {
        for (std::size_t job = next++; job < spaces_.size() * plan_.seeds; job = next++)
          work(job / plan_.seeds, job % plan_.seeds);
      });
    }
  }

  SimulatedRun search(const RecordedSpace& space, std::uint64_t seed,
                      const std::vector<History>& histories) const {
    const auto searcher = make_searcher("auto", space.space, seed);
    searcher->warm(histories);
    return simulate(*searcher, space.outcomes, plan_.budget, plan_.in_flight);
  }

  // The other spaces of the same kernel, nearest first.
  std::vector<std::size_t> neighbours(std::size_t here) const {
    std::vector<std::pair<double, std::size_t>> found;
    for (std::size_t s = 0; s < spaces_.size(); ++s) {
      if (s != here && spaces_[s].key.kernel == spaces_[here].key.kernel)
        found.emplace_back(workload_distance(spaces_[here].key, spaces_[s].key), s);
    }
    std::sort(found.begin(), found.end());
    std::vector<std::size_t> order;
    for (const auto& [distance, s] : found) order.push_back(s);
    return order;
  }

  // What a cache that holds a cold search of every other space would give.
  std::vector<History> known_to(std::size_t here, std::size_t k) const {
    const RecordedSpace& space = spaces_[here];
    std::vector<History> histories;
    for (const std::size_t s : neighbours(here)) {
      const RecordedSpace& other = spaces_[s];
      std::optional<Transfer> transfer = transfer_from(other, space);
      History history{.distance = workload_distance(space.key, other.key)};
      for (const ConfigId id : past_[s * plan_.seeds + k]) {
        auto point = space.space.point_of(other.space.config(id).text());
        if (point && transfer) point = (*transfer)(*point, space.space);
        const Observation& trial = other.outcomes[id];
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

  // The slowest becomes the fastest: experience as wrong as it gets.
  static void turn_over(History& history) {
    for (PastTrial& trial : history.trials) {
      if (has_usable_time({0, trial.outcome, trial.time_us})) trial.time_us = 1e4 / trial.time_us;
    }
  }

  const Plan& plan_;
  const std::vector<RecordedSpace>& spaces_;
  std::map<std::string, Space> files_;       // by kernel
  std::vector<std::vector<ConfigId>> past_;  // what a cold search asked, by space and seed
};

double trials_to_2_percent(const std::vector<double>& curve) {
  std::size_t trial = 0;
  while (curve[trial] > 1.02 * curve.back()) ++trial;
  return static_cast<double>(trial + 1);
}

double median_trials(const std::vector<std::vector<double>>& curves) {
  std::vector<double> trials;
  for (const std::vector<double>& curve : curves) trials.push_back(trials_to_2_percent(curve));
  return quantile(trials, 0.5);
}

void print_regrets(const char* name, const std::vector<std::vector<double>>& curves, double optimum_us) {
  std::printf("    %-8s", name);
  for (const std::size_t budget : kBudgets) {
    std::vector<double> regrets;
    for (const std::vector<double>& curve : curves)
      regrets.push_back(curve[std::min(budget, curve.size()) - 1] / optimum_us);
    std::printf("  %6.4f", quantile(regrets, 0.5));
    if (budget == kBudgets.back()) std::printf("  %6.4f", quantile(regrets, 0.9));
  }
  std::printf("\n");
}

}  // namespace

void print_warm(const Plan& plan, const std::vector<RecordedSpace>& spaces) {
  WarmStarts starts(plan, spaces);
  const std::vector<Curves> all = starts.run();
  std::printf(
      "Trials until within 2%% of the search's own final best, medians of %zu seeds; then the regret after "
      "%zu, %zu, %zu and %zu trials, and its 90th percentile at the last. Misled: told that what was slow "
      "elsewhere was fast.\n",
      plan.seeds, kBudgets[0], kBudgets[1], kBudgets[2], kBudgets[3]);
  for (std::size_t s = 0; s < spaces.size(); ++s) {
    const double cold = median_trials(all[s].cold), warm = median_trials(all[s].warm);
    std::printf("%s, %zu histories: cold %.1f trials, warm %.1f, %.2f of them\n", spaces[s].name.c_str(),
                starts.known_count(s), cold, warm, warm / cold);
    print_regrets("cold", all[s].cold, spaces[s].optimum_us);
    print_regrets("warm", all[s].warm, spaces[s].optimum_us);
    print_regrets("misled", all[s].misled, spaces[s].optimum_us);
  }
}

}  // namespace moetune::bench
