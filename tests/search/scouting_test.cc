// Scouting: what is compiled for its facts before anything is chosen to be measured.
#include "search/scouting.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "search/random.h"
#include "search/simulation.h"
#include "search/space.h"
#include "search/strategies/fact_table.h"
#include "tests/search/random_space.h"

using namespace moetune;

namespace {

LegalSpace grid(std::size_t side) {
  std::vector<Parameter> parameters;
  for (const char* name : {"a", "b", "c"}) {
    Parameter& parameter = parameters.emplace_back(Parameter{name, {}, ""});
    for (std::size_t i = 0; i < side; ++i)
      parameter.values.push_back(Value::integer(static_cast<std::int64_t>(i + 1)));
  }
  std::vector<Position> rows;
  for (std::size_t i = 0; i < side * side * side; ++i) {
    for (const std::size_t divisor : {side * side, side, std::size_t{1}})
      rows.push_back(static_cast<Position>(i / divisor % side));
  }
  return LegalSpace(parameters, rows);
}

// Registers that follow from the parameters in no way that is easily seen, and times that follow from them.
double registers(const LegalSpace& space, ConfigId id) {
  const std::span<const Position> at = space.point(id);
  return 32 + std::abs(static_cast<double>(at[0] * at[1]) - static_cast<double>(3 * at[2] * at[2]) + 20);
}

struct Landscape {
  std::vector<Observation> outcomes;
  std::vector<Facts> facts;
};

Landscape by_registers(const LegalSpace& space) {
  Landscape made;
  for (ConfigId id = 0; id < space.size(); ++id) {
    const double count = registers(space, id);
    const double noise = Random(id).unit();
    made.outcomes.push_back({id, Outcome::ok, 5 + 0.2 * count + noise});
    made.facts.push_back({count, std::max(0.0, count - 100)});
  }
  return made;
}

double mean_best(const LegalSpace& space, const Landscape& made, bool with_facts, std::size_t budget) {
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const auto facts = with_facts ? std::span<const Facts>(made.facts) : std::span<const Facts>();
    const SimulatedRun run = simulate(*make_searcher("auto", space, seed), made.outcomes, budget, 32, facts);
    CHECK_FALSE(run.repeated);
    CHECK((run.pruned > 0) == with_facts);
    sum += run.best_us.back() / 12;
  }
  return sum;
}

// Scouts what it is told to, and remembers what it learnt.
class Scripted : public Searcher {
 public:
  std::vector<ConfigId> to_scout;
  std::vector<ConfigId> ask(std::size_t) override { return {}; }
  void tell(const Observation&) override {}
  std::vector<ConfigId> scout(std::size_t n) override {
    n = std::min(n, to_scout.size());
    const std::vector<ConfigId> ids(to_scout.begin(), to_scout.begin() + static_cast<std::ptrdiff_t>(n));
    to_scout.erase(to_scout.begin(), to_scout.begin() + static_cast<std::ptrdiff_t>(n));
    return ids;
  }
};

}  // namespace

TEST_CASE("scouts come back in the order they were sent, each a fixed number of tells later") {
  Scripted searcher;
  searcher.to_scout = {5, 3, 9, 1};
  Scouting scouting(searcher);
  CHECK(scouting.send(2, 0) == std::vector<ConfigId>{5, 3});
  CHECK(scouting.send(2, 1).empty());
  CHECK(scouting.send(3, 1) == std::vector<ConfigId>{9});
  CHECK_FALSE(scouting.take_due(kScoutedFor - 1));
  CHECK(scouting.take_due(kScoutedFor) == 5u);
  CHECK(scouting.take_due(kScoutedFor) == 3u);
  CHECK_FALSE(scouting.take_due(kScoutedFor));
  CHECK(scouting.out() == 1);
  CHECK(scouting.send(2, kScoutedFor) == std::vector<ConfigId>{1});
}

TEST_CASE(
    "of the configurations whose facts are known, the fast ones are asked and the slow ones passed over") {
  const LegalSpace space = grid(12);
  Landscape made;
  for (ConfigId id = 0; id < space.size(); ++id) {
    // Registers that no function of the parameters gives: only who is told them can know.
    const auto registers = static_cast<double>(32 + Random(id * 7919u + 3).below(200));
    made.outcomes.push_back({id, Outcome::ok, 10 + 0.1 * registers + 0.2 * space.point(id)[0]});
    made.facts.push_back({registers});
  }
  double asked = 0, passed_over = 0, asked_time = 0, passed_over_time = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const auto searcher = make_searcher("auto", space, seed);
    std::set<ConfigId> known;
    for (int trial = 0; trial < 80; ++trial) {
      const ConfigId id = searcher->ask(1).at(0);
      if (known.erase(id) > 0) {
        ++asked;
        asked_time += made.outcomes[id].time_us;
      }
      searcher->learn(id, made.facts[id]);
      searcher->tell(made.outcomes[id]);
      for (const ConfigId scout : searcher->scout(4)) {
        searcher->learn(scout, made.facts[scout]);
        known.insert(scout);
      }
    }
    for (const ConfigId id : known) {
      ++passed_over;
      passed_over_time += made.outcomes[id].time_us;
    }
  }
  CHECK(asked > 30);
  CHECK(passed_over > 100);
  CHECK(asked_time / asked < passed_over_time / passed_over - 3);
}

TEST_CASE("facts that say nothing do no harm worth speaking of") {
  const LegalSpace space = grid(10);
  Landscape made;
  Random random(11);
  for (ConfigId id = 0; id < space.size(); ++id) {
    double time = 10;
    for (const Position position : space.point(id)) time += std::pow(std::log2(position + 1.0) - 1.5, 2);
    made.outcomes.push_back({id, Outcome::ok, time});
    made.facts.push_back({static_cast<double>(random.below(100)), static_cast<double>(random.below(8))});
  }
  CHECK(mean_best(space, made, true, 60) < 1.01 * mean_best(space, made, false, 60));
}

TEST_CASE("what is foreseen is untried and mostly what is asked next, and to look changes nothing") {
  const LegalSpace space = grid(10);
  const Landscape made = by_registers(space);
  const auto looked_at = make_searcher("auto", space, 3), left_alone = make_searcher("auto", space, 3);
  CHECK(looked_at->foresee(8).empty());
  std::set<ConfigId> told;
  int foreseen = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const std::vector<ConfigId> next = looked_at->foresee(8);
    CHECK(next.size() <= 8);
    CHECK(std::set<ConfigId>(next.begin(), next.end()).size() == next.size());
    for (const ConfigId id : next) CHECK_FALSE(told.contains(id));
    const ConfigId id = looked_at->ask(1).at(0);
    REQUIRE(left_alone->ask(1).at(0) == id);
    foreseen += std::find(next.begin(), next.end(), id) != next.end();
    told.insert(id);
    looked_at->tell(made.outcomes[id]);
    left_alone->tell(made.outcomes[id]);
  }
  CHECK(foreseen > 25);
}

TEST_CASE("scouts are new each time, a bounded number of them, and none before there is a model") {
  const LegalSpace space = grid(8);
  const Landscape made = by_registers(space);
  const auto searcher = make_searcher("auto", space, 5);
  CHECK(searcher->scout(50).empty());
  std::set<ConfigId> seen;
  std::size_t scouted = 0;
  for (std::size_t trial = 1; trial <= 60; ++trial) {
    const std::vector<ConfigId> asked = searcher->ask(1);
    REQUIRE(asked.size() == 1);
    searcher->learn(asked[0], made.facts[asked[0]]);
    searcher->tell(made.outcomes[asked[0]]);
    for (const ConfigId id : searcher->scout(50)) {
      CHECK(seen.insert(id).second);
      CHECK(id < space.size());
      CHECK(id != asked[0]);
      searcher->learn(id, made.facts[id]);
      ++scouted;
    }
    CHECK(scouted <= trial + 8);
  }
  CHECK(scouted > 30);
}

TEST_CASE("every strategy, told facts or not, asks each configuration of a random space exactly once") {
  for (const StrategyInfo& strategy : strategies()) {
    CAPTURE(strategy.name);
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      const RandomSpace random(seed);
      const LegalSpace space = Space::parse(random.json(), "random.json").enumerate(random.environment());
      Landscape made;
      for (ConfigId id = 0; id < space.size(); ++id) {
        Random draw(seed * 7919 + id);
        made.outcomes.push_back({id, kOutcomes[draw.below(kOutcomes.size())], 1 + draw.unit()});
        made.facts.push_back({draw.unit(), 100 * draw.unit()});
        if (draw.below(3) == 0) made.facts.back().clear();  // did not compile
      }
      for (const std::size_t in_flight : {1, 8, 100000}) {
        const auto searcher = make_searcher(strategy.name, space, seed);
        const SimulatedRun run = simulate(*searcher, made.outcomes, space.size() + 1, in_flight, made.facts);
        REQUIRE_FALSE(run.repeated);
        REQUIRE(run.asked.size() == space.size());
        CHECK(run.pruned == 0);
      }
    }
  }
}

TEST_CASE("one seed and the same facts give one trajectory") {
  const LegalSpace space = grid(8);
  const Landscape made = by_registers(space);
  const auto asked = [&](std::uint64_t seed) {
    return simulate(*make_searcher("auto", space, seed), made.outcomes, 70, 32, made.facts).asked;
  };
  CHECK(asked(3) == asked(3));
  CHECK(asked(3) != asked(4));
}

TEST_CASE("facts of another length, facts that are no numbers, and facts of nothing known are passed over") {
  FactTable table;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(table.add(1, {}));
  CHECK_FALSE(table.add(1, {nan, 2}));
  CHECK_FALSE(table.add(1, {3, std::numeric_limits<double>::infinity()}));
  CHECK(table.add(1, {3, 2}));
  CHECK_FALSE(table.add(1, {4, 2}));
  CHECK_FALSE(table.add(2, {4}));
  CHECK(table.ids() == std::vector<ConfigId>{1});

  const LegalSpace space = grid(4);
  const auto searcher = make_searcher("auto", space, 1);
  searcher->learn(4'000'000, {1, 2});
  searcher->learn(3, {nan, 2});
  searcher->learn(3, {1, 2});
  searcher->learn(5, {1, 2, 3});
  for (std::size_t trial = 0; trial < space.size(); ++trial) {
    const std::vector<ConfigId> asked = searcher->ask(1);
    REQUIRE(asked.size() == 1);
    searcher->tell({asked[0], Outcome::ok, 1.0 + asked[0]});
  }
  CHECK(searcher->ask(1).empty());
  CHECK(searcher->scout(10).empty());
}

TEST_CASE("a fact becomes an axis of few levels, the nearest of which stands for a value") {
  FactTable table;
  for (ConfigId id = 0; id < 100; ++id)
    table.add(id, {static_cast<double>(id), 7, id % 2 == 0 ? 0.0 : 512.0});
  table.settle();
  REQUIRE(table.axes().size() == 3);
  CHECK(table.axes()[0].size() == 24);
  CHECK(table.axes()[1].size() == 1);
  CHECK(table.axes()[2].size() == 2);
  std::vector<Position> slow, fast, unknown;
  table.append(0, fast);
  table.append(99, slow);
  table.append(12345, unknown);
  CHECK(fast == std::vector<Position>{0, 0, 0});
  CHECK(slow == std::vector<Position>{23, 0, 1});
  CHECK(unknown[0] > 8);
  CHECK(unknown[0] < 15);
}
