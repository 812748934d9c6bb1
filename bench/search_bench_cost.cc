#include "bench/search_bench_cost.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "search/searcher.h"

namespace moetune::bench {
namespace {

constexpr std::size_t kTrials = 200;

// Every combination of parameters of the given domain sizes.
LegalSpace full_space(const std::vector<std::size_t>& sizes) {
  std::vector<Parameter> parameters;
  std::size_t count = 1;
  for (const std::size_t size : sizes) {
    Parameter& parameter =
        parameters.emplace_back(Parameter{"p" + std::to_string(parameters.size()), {}, ""});
    for (std::size_t i = 0; i < size; ++i)
      parameter.values.push_back(Value::integer(static_cast<std::int64_t>(i + 1)));
    count *= size;
  }
  std::vector<Position> rows(count * sizes.size());
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t rest = i;
    for (std::size_t p = sizes.size(); p-- > 0; rest /= sizes[p])
      rows[i * sizes.size() + p] = static_cast<Position>(rest % sizes[p]);
  }
  return LegalSpace(std::move(parameters), std::move(rows));
}

// Rugged enough that a search stays busy; one configuration in sixteen fails.
Observation synthetic_outcome(const LegalSpace& space, ConfigId id) {
  double time = 1;
  double phase = 0;
  for (const Position position : space.point(id)) {
    phase = 1.7 * phase + static_cast<double>(position);
    time *= 1.2 + std::sin(phase);
  }
  if (std::fmod(phase, 1.0) < 1.0 / 16) return {id, Outcome::launch_failed, 0};
  return {id, Outcome::ok, 10 + std::abs(time)};
}

double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

struct Cost {
  double mean_ms = 0;
  double slowest_ms = 0;
};

// One at a time, so that every trial's ask and tell are timed together.
Cost measure(const std::string& strategy, const LegalSpace& space) {
  const double begin = cpu_ms();
  const auto searcher = make_searcher(strategy, space, 1);
  Cost cost;
  for (std::size_t trial = 0; trial < kTrials; ++trial) {
    const double before = cpu_ms();
    for (const ConfigId id : searcher->ask(1)) searcher->tell(synthetic_outcome(space, id));
    cost.slowest_ms = std::max(cost.slowest_ms, cpu_ms() - before);
  }
  cost.mean_ms = (cpu_ms() - begin) / kTrials;
  return cost;
}

}  // namespace

nlohmann::json print_costs(const std::vector<std::string>& strategies) {
  std::printf("%-24s %9s %9s %9s  (CPU ms a trial over %zu trials, and of the slowest)\n", "strategy",
              "legal", "mean", "slowest", kTrials);
  nlohmann::json rows = nlohmann::json::array();
  for (const std::vector<std::size_t>& sizes :
       {std::vector<std::size_t>{10, 10, 5, 5, 4, 2}, {10, 10, 10, 10, 5, 5, 5, 2, 2}}) {
    const LegalSpace space = full_space(sizes);
    for (const std::string& strategy : strategies) {
      const Cost cost = measure(strategy, space);
      std::printf("%-24s %9zu %9.3f %9.1f\n", strategy.c_str(), space.size(), cost.mean_ms, cost.slowest_ms);
      rows.push_back({{"strategy", strategy},
                      {"legal", space.size()},
                      {"mean_ms", cost.mean_ms},
                      {"slowest_ms", cost.slowest_ms}});
    }
  }
  return rows;
}

}  // namespace moetune::bench
