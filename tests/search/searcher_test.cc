#include "search/searcher.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>

#include "base/error.h"
#include "search/random.h"
#include "search/space.h"
#include "tests/search/random_space.h"

using namespace moetune;

namespace {

LegalSpace line(std::size_t size) {
  Parameter parameter{"x", {}, ""};
  std::vector<Position> rows;
  for (std::size_t i = 0; i < size; ++i) {
    parameter.values.push_back(Value::integer(static_cast<std::int64_t>(i)));
    rows.push_back(static_cast<Position>(i));
  }
  return LegalSpace({parameter}, rows);
}

LegalSpace grid(std::size_t dimensions, std::size_t side) {
  std::vector<Parameter> parameters;
  std::size_t count = 1;
  for (std::size_t d = 0; d < dimensions; ++d) {
    Parameter parameter{"p" + std::to_string(d), {}, ""};
    for (std::size_t i = 0; i < side; ++i) parameter.values.push_back(Value::integer(static_cast<std::int64_t>(i)));
    parameters.push_back(parameter);
    count *= side;
  }
  std::vector<Position> rows;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t d = dimensions, rest = count / side; d-- > 0; rest /= side) {
      rows.push_back(static_cast<Position>(i / rest % side));
    }
  }
  return LegalSpace(parameters, rows);
}

Observation synthetic_outcome(ConfigId id, std::uint64_t seed) {
  Random random(seed * 1000003 + id);
  const Outcome outcome = random.below(4) == 0 ? kOutcomes[random.below(kOutcomes.size())] : Outcome::ok;
  const double odd[] = {0, -1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()};
  return {id, outcome, random.below(8) == 0 ? odd[random.below(4)] : 1 + random.unit()};
}

// The ids in the order they were asked, with up to `in_flight` open and tells in the order of the asks.
std::vector<ConfigId> drive(Searcher& searcher, std::size_t in_flight, std::size_t budget,
                            const std::function<Observation(ConfigId)>& measure) {
  std::vector<ConfigId> asked;
  std::deque<ConfigId> open;
  for (;;) {
    const std::size_t room = std::min(in_flight - open.size(), budget - asked.size());
    for (const ConfigId id : searcher.ask(room)) {
      asked.push_back(id);
      open.push_back(id);
    }
    if (open.empty()) return asked;
    searcher.tell(measure(open.front()));
    open.pop_front();
  }
}

// A bowl with a little ruggedness: the sum of squared distances to a hidden point.
double bowl(const LegalSpace& space, ConfigId id, std::uint64_t seed) {
  Random random(seed);
  double time = 10;
  for (const Position position : space.point(id)) {
    const double distance = static_cast<double>(position) - static_cast<double>(random.below(8));
    time += distance * distance;
  }
  Random noise(seed ^ (id * 7919u));
  return time + noise.unit();
}

}  // namespace

TEST_CASE("every strategy asks each configuration of a random space exactly once, whatever it is told") {
  for (const StrategyInfo& strategy : strategies()) {
    CAPTURE(strategy.name);
    for (std::uint64_t seed = 1; seed <= 16; ++seed) {
      const RandomSpace random(seed);
      const LegalSpace space = Space::parse(random.json(), "random.json").enumerate(random.environment());
      for (const std::size_t in_flight : {1, 5, 32, 100000}) {
        const auto searcher = make_searcher(strategy.name, space, seed);
        std::vector<ConfigId> asked =
            drive(*searcher, in_flight, space.size() + 1, [&](ConfigId id) { return synthetic_outcome(id, seed); });
        REQUIRE(asked.size() == space.size());
        std::sort(asked.begin(), asked.end());
        for (std::size_t i = 0; i < asked.size(); ++i) REQUIRE(asked[i] == i);
        REQUIRE(searcher->ask(1).empty());
      }
    }
  }
}

TEST_CASE("every strategy is deterministic in its seed, and random ones differ between seeds") {
  const LegalSpace space = grid(4, 5);
  for (const StrategyInfo& strategy : strategies()) {
    CAPTURE(strategy.name);
    const auto trajectory = [&](std::uint64_t seed) {
      return drive(*make_searcher(strategy.name, space, seed), 32, 200,
                   [&](ConfigId id) { return synthetic_outcome(id, 5); });
    };
    CHECK(trajectory(1) == trajectory(1));
    CHECK((trajectory(1) != trajectory(2)) == (strategy.name != "exhaustive"));
  }
}

TEST_CASE("random search is uniform: every configuration comes first about equally often") {
  const LegalSpace space = line(8);
  std::vector<int> first(space.size());
  for (std::uint64_t seed = 0; seed < 4000; ++seed) ++first[make_searcher("random", space, seed)->ask(1)[0]];
  for (const int count : first) {
    CHECK(count > 400);  // 500 expected, standard deviation 21
    CHECK(count < 600);
  }
}

TEST_CASE("local search beats random search on a smooth landscape, one at a time and with many open") {
  const LegalSpace space = grid(5, 8);
  for (const std::size_t in_flight : {1, 32}) {
    CAPTURE(in_flight);
    int wins = 0;
    double local_total = 0;
    double random_total = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      const auto best = [&](std::string_view strategy) {
        double least = std::numeric_limits<double>::infinity();
        drive(*make_searcher(strategy, space, seed), in_flight, 200, [&](ConfigId id) {
          const double time = bowl(space, id, seed);
          least = std::min(least, time);
          return Observation{id, Outcome::ok, time};
        });
        return least;
      };
      const double local = best("local");
      const double random = best("random");
      local_total += local;
      random_total += random;
      wins += local < random;
    }
    CHECK(wins >= 55);
    CHECK(local_total < random_total - 60 * 1.5);
  }
}

TEST_CASE("an unknown strategy is refused with the nearest") {
  const LegalSpace space = line(3);
  CHECK_THROWS_WITH_AS(make_searcher("locla", space, 1), "unknown strategy 'locla'; did you mean 'local'?", BadInput);
}
