#include "bench/search_bench_cost.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "search/scouting.h"
#include "search/searcher.h"
#include "tuner/compile/static_facts.h"

namespace moetune::bench {
namespace {

constexpr std::size_t kTrials = 200;
constexpr std::size_t kInFlight = 16;  // configurations that a compiler works on where there are facts

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
Observation made_up(const LegalSpace& space, ConfigId id) {
  double time = 1;
  double phase = 0;
  for (const Position position : space.point(id)) {
    phase = 1.7 * phase + static_cast<double>(position);
    time *= 1.2 + std::sin(phase);
  }
  if (std::fmod(phase, 1.0) < 1.0 / 16) return {id, Outcome::launch_failed, 0};
  return {id, Outcome::ok, 10 + std::abs(time)};
}

// As many as a compiler states, no two of which follow from each other.
Facts made_up_facts(const LegalSpace& space, ConfigId id) {
  Facts facts(kFactNames.size());
  for (std::size_t f = 0; f < facts.size(); ++f) {
    double sum = 16;
    std::size_t turn = f;
    for (const Position position : space.point(id))
      sum += static_cast<double>(position) * static_cast<double>(turn++ % (f + 2));
    facts[f] = sum;
  }
  return facts;
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
Cost measure(const std::string& strategy, const LegalSpace& space, bool with_facts) {
  const double begin = cpu_ms();
  const auto searcher = make_searcher(strategy, space, 1);
  Scouting scouting(*searcher);
  Cost cost;
  for (std::size_t trial = 0; trial < kTrials; ++trial) {
    const double before = cpu_ms();
    if (with_facts) {
      while (const std::optional<ConfigId> due = scouting.take_due(trial))
        searcher->learn(*due, made_up_facts(space, *due));
    }
    const std::vector<ConfigId> asked = searcher->ask(1);
    if (with_facts) scouting.send(kInFlight, trial);
    for (const ConfigId id : asked) {
      if (with_facts) searcher->learn(id, made_up_facts(space, id));
      searcher->tell(made_up(space, id));
    }
    cost.slowest_ms = std::max(cost.slowest_ms, cpu_ms() - before);
  }
  cost.mean_ms = (cpu_ms() - begin) / kTrials;
  return cost;
}

}  // namespace

nlohmann::json print_costs(const std::vector<std::string>& strategies) {
  std::printf("%-24s %9s %6s %9s %9s  (CPU ms a trial over %zu trials, and of the slowest)\n", "strategy",
              "legal", "facts", "mean", "slowest", kTrials);
  nlohmann::json rows = nlohmann::json::array();
  for (const std::vector<std::size_t>& sizes :
       {std::vector<std::size_t>{10, 10, 5, 5, 4, 2}, {10, 10, 10, 10, 5, 5, 5, 2, 2}}) {
    const LegalSpace space = full_space(sizes);
    for (const std::string& strategy : strategies) {
      for (const bool facts : {false, true}) {
        const Cost cost = measure(strategy, space, facts);
        std::printf("%-24s %9zu %6zu %9.3f %9.1f\n", strategy.c_str(), space.size(),
                    facts ? kFactNames.size() : 0, cost.mean_ms, cost.slowest_ms);
        rows.push_back({{"strategy", strategy},
                        {"legal", space.size()},
                        {"facts", facts},
                        {"mean_ms", cost.mean_ms},
                        {"slowest_ms", cost.slowest_ms}});
      }
    }
  }
  return rows;
}

}  // namespace moetune::bench
