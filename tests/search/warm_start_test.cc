#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "search/strategies/surrogate.h"
#include "tests/search/mixed_space.h"
#include "tests/search/simulation.h"

namespace moetune::warm_start_test {
namespace {

// So many values that a configuration has more neighbours than a search has patience.
LegalSpace wide_space() {
  std::vector<Parameter> parameters = mixed_space().parameters();
  parameters[0] = integers("tile", {16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128});
  parameters[1] = integers("stages", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  return full(std::move(parameters));
}

// All that was measured of the space, `factor` times as slow: another GPU.
History same_elsewhere(const LegalSpace& space, double factor) {
  History history;
  for (const Observation& outcome : measure_all(space)) {
    history.trials.push_back(past(space, outcome));
    history.trials.back().time_us *= factor;
  }
  return history;
}

// What was told before an ask: the fastest, and for how long it has been that.
struct Standing {
  std::optional<ConfigId> best;
  std::size_t since = 0;
};

std::vector<Standing> standings(const std::vector<ConfigId>& asked, const std::vector<Observation>& outcomes) {
  std::vector<Standing> before;
  Standing now;
  for (const ConfigId id : asked) {
    before.push_back(now);
    ++now.since;
    const bool better = !now.best || outcomes[id].time_us < outcomes[*now.best].time_us;
    if (has_usable_time(outcomes[id]) && better) now = {id, 0};
  }
  return before;
}

bool are_all_asked(const std::vector<ConfigId>& ids, std::span<const ConfigId> asked) {
  return std::all_of(ids.begin(), ids.end(),
                     [&](ConfigId id) { return std::find(asked.begin(), asked.end(), id) != asked.end(); });
}

// Whether each ask is one parameter from the fastest told before.
std::vector<bool> beside_the_best(const LegalSpace& space, const std::vector<ConfigId>& asked,
                                  const std::vector<Observation>& outcomes) {
  std::vector<bool> beside;
  const std::vector<Standing> before = standings(asked, outcomes);
  for (std::size_t i = 0; i < asked.size(); ++i)
    beside.push_back(before[i].best && space.are_neighbours(asked[i], *before[i].best));
  return beside;
}

}  // namespace

TEST_CASE("a warm start tries the winners of the histories first, with random starts beside them") {
  const LegalSpace space = mixed_space();
  std::vector<History> histories(2);
  for (const ConfigId id : some_ids(space, 60, 9)) histories[0].trials.push_back(past(space, measure(space, id)));
  for (const ConfigId id : some_ids(space, 60, 10)) {
    Observation trial = measure(space, id);
    trial.time_us *= 7;  // another GPU: slower all over
    histories[1].trials.push_back(past(space, trial));
  }
  const auto winner = [&](const History& history) {
    const auto time = [](const PastTrial& trial) {
      return trial.outcome == Outcome::ok ? trial.time_us : std::numeric_limits<double>::infinity();
    };
    const auto best = std::min_element(history.trials.begin(), history.trials.end(),
                                       [&](const auto& a, const auto& b) { return time(a) < time(b); });
    return *space.find(best->point);
  };
  std::set<ConfigId> random_starts;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const auto searcher = make_searcher("auto", space, seed);
    searcher->warm(histories);
    const std::vector<ConfigId> asked = searcher->ask(3);
    REQUIRE(asked.size() == 3);
    CHECK(asked[0] == winner(histories[0]));
    if (winner(histories[1]) != asked[0]) CHECK(asked[1] == winner(histories[1]));
    random_starts.insert(asked[2]);
  }
  CHECK(random_starts.size() > 1);
}

TEST_CASE("a history makes a search shorter where it is of a like problem, and harmless where it is nonsense") {
  const LegalSpace space = mixed_space();
  const std::vector<Observation> outcomes = measure_all(space);
  History like;
  History nonsense;
  Random random(4);
  for (const ConfigId id : some_ids(space, 120, 2)) {
    like.trials.push_back(past(space, outcomes[id]));
    like.trials.back().time_us *= 3;
    nonsense.trials.push_back(past(space, {id, Outcome::ok, 1 + random.unit()}));
  }
  nonsense.trials.push_back({{9, 9, 9, 9, 9}, Outcome::ok, 1});
  nonsense.trials.push_back({{0, 0}, Outcome::ok, 1});
  nonsense.trials.push_back(past(space, {5, Outcome::ok, std::numeric_limits<double>::quiet_NaN()}));
  double cold = 0, warm = 0, misled = 0;
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    const auto best = [&](std::vector<History> histories, std::size_t budget) {
      const auto searcher = make_searcher("auto", space, seed);
      searcher->warm(histories);
      const SimulatedRun run = simulate(*searcher, outcomes, budget, 1);
      CHECK_FALSE(run.repeated);
      return run.best_us.back();
    };
    cold += best({}, 12);
    warm += best({like}, 12);
    misled += best({nonsense}, 60);
  }
  CHECK(warm < cold);
  CHECK(misled / 15 < 1.05 * 20);
}

TEST_CASE("histories that have the order upside down, however well they agree, cost a search a few trials") {
  const LegalSpace space = mixed_space();
  const std::vector<Observation> outcomes = measure_all(space);
  double cold = 0, misled = 0;
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    std::vector<History> wrong(3);
    for (std::size_t i = 0; i < wrong.size(); ++i) {
      for (const ConfigId id : some_ids(space, 120, 10 * seed + i)) {
        wrong[i].trials.push_back(past(space, outcomes[id]));
        wrong[i].trials.back().time_us = 1000 / outcomes[id].time_us;
      }
    }
    const auto best = [&](const std::vector<History>& histories, std::size_t budget) {
      const auto searcher = make_searcher("auto", space, seed);
      searcher->warm(histories);
      return simulate(*searcher, outcomes, budget, 1).best_us.back();
    };
    cold += best({}, 25);
    misled += best(wrong, 32);
  }
  CHECK(misled <= 1.02 * cold);
}

TEST_CASE(
    "a winner that is not legal here is a start all the same: a configuration that is, as near as there is "
    "one") {
  const LegalSpace whole = full({integers("tile", {16, 32, 64, 128}), integers("splits", {1, 2, 4, 8})});
  std::vector<Position> rows;
  for (ConfigId id = 0; id < whole.size(); ++id) {
    if (whole.point(id)[1] < 2) continue;
    rows.insert(rows.end(), whole.point(id).begin(), whole.point(id).end());
  }
  const LegalSpace space(whole.parameters(), rows);
  History history;
  for (ConfigId id = 0; id < whole.size(); ++id)
    history.trials.push_back(past(whole, {id, Outcome::ok, id == 8 ? 1.0 : 10.0 + id}));  // tile=64,splits=1
  std::set<std::string> first;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto searcher = make_searcher("auto", space, seed);
    searcher->warm(std::vector<History>{history});
    first.insert(space.config(searcher->ask(1).at(0)).text());
  }
  CHECK(first == std::set<std::string>{"tile=64,splits=4", "tile=64,splits=8"});
}

TEST_CASE("a warm search looks beside the best, and anywhere once nothing there betters it") {
  const LegalSpace space = wide_space();
  const std::vector<Observation> outcomes = measure_all(space);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    const auto searcher = make_searcher("auto", space, seed);
    searcher->warm(std::vector<History>{same_elsewhere(space, 3)});
    const SimulatedRun run = simulate(*searcher, outcomes, 59, 1);
    const std::vector<bool> beside = beside_the_best(space, run.asked, outcomes);
    const std::vector<Standing> before = standings(run.asked, outcomes);
    std::size_t left_early = 0;
    for (std::size_t i = 0; i < run.asked.size(); ++i) {
      const bool models = i == 2 || i == 4 || i == 6 || i >= 8;
      if (models && before[i].since < 6) CHECK(beside[i]);
      const auto around = space.neighbours(*before[std::max<std::size_t>(i, 1)].best);
      left_early += !beside[i] && before[i].since >= 6 && !are_all_asked(around, {run.asked.data(), i});
    }
    CHECK(left_early > 0);
  }
}

TEST_CASE("a history that is doubted holds no search beside the best, and the random starts are made up for") {
  const LegalSpace space = mixed_space();
  const std::vector<Observation> outcomes = measure_all(space);
  History wrong = same_elsewhere(space, 1);
  for (PastTrial& trial : wrong.trials) trial.time_us = 1000 / std::max(trial.time_us, 1.0);
  std::size_t left_early = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    const auto searcher = make_searcher("auto", space, seed);
    searcher->warm(std::vector<History>{wrong});
    const SimulatedRun run = simulate(*searcher, outcomes, 30, 1);
    const std::vector<bool> beside = beside_the_best(space, run.asked, outcomes);
    CHECK(std::count(beside.begin() + 6, beside.begin() + 20, false) >= 5);
    const std::vector<Standing> before = standings(run.asked, outcomes);
    for (std::size_t i = 14; i < run.asked.size(); ++i) left_early += !beside[i] && before[i].since < 6;
  }
  CHECK(left_early > 0);
}

TEST_CASE("winners that differ little among themselves are no ground to doubt a history") {
  const LegalSpace space = mixed_space();
  std::vector<Observation> outcomes = measure_all(space);
  const History elsewhere = same_elsewhere(space, 1);
  // The four fastest stand in another order here, by a percent from one to the next.
  std::vector<ConfigId> fastest(space.size());
  for (ConfigId id = 0; id < fastest.size(); ++id) fastest[id] = id;
  std::erase_if(fastest, [&](ConfigId id) { return !has_usable_time(outcomes[id]); });
  std::stable_sort(fastest.begin(), fastest.end(),
                   [&](ConfigId a, ConfigId b) { return outcomes[a].time_us < outcomes[b].time_us; });
  for (std::size_t rank = 0; rank < 4; ++rank)
    outcomes[fastest[rank]].time_us = 20 * (1 - 0.01 * static_cast<double>(rank));
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    const auto searcher = make_searcher("auto", space, seed);
    searcher->warm(std::vector<History>{elsewhere});
    const SimulatedRun run = simulate(*searcher, outcomes, 7, 1);
    CHECK(std::count(run.asked.begin(), run.asked.end(), fastest[3]) == 1);
    CHECK(beside_the_best(space, run.asked, outcomes)[6]);
  }
}

TEST_CASE("a search that resumes with its first asks told goes on behind them") {
  const LegalSpace space = wide_space();
  const std::vector<Observation> outcomes = measure_all(space);
  std::size_t resumed = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    History history;  // too little to know the best
    for (const ConfigId id : some_ids(space, 60, seed)) history.trials.push_back(past(space, outcomes[id]));
    const std::vector<History> histories = {history};
    const auto first = make_searcher("auto", space, seed);
    first->warm(histories);
    const SimulatedRun run = simulate(*first, outcomes, 14, 1);
    const std::vector<Standing> before = standings(run.asked, outcomes);
    for (std::size_t told = 6; told < 13; ++told) {
      CAPTURE(seed);
      CAPTURE(told);
      if (before[told].since >= 6) continue;  // it may be anywhere
      const auto searcher = make_searcher("auto", space, seed + 100);
      searcher->warm(histories);
      for (std::size_t i = 0; i < told; ++i) searcher->tell(outcomes[run.asked[i]]);
      const std::vector<ConfigId> next = searcher->ask(5);
      // All but a winner that is left and the one drawn anywhere.
      CHECK(std::count_if(next.begin(), next.end(),
                          [&](ConfigId id) { return space.are_neighbours(id, *before[told].best); }) >= 3);
      ++resumed;
    }
  }
  CHECK(resumed > 6);
}

TEST_CASE("the winners still to be tried are foreseen first") {
  const LegalSpace space = mixed_space();
  const std::vector<Observation> outcomes = measure_all(space);
  const auto searcher = make_searcher("auto", space, 1);
  searcher->warm(std::vector<History>{same_elsewhere(space, 3)});
  const std::vector<ConfigId> winners = searcher->likely_next(8);
  REQUIRE(winners.size() == 4);
  const std::vector<ConfigId> asked = searcher->ask(2);
  CHECK(asked == std::vector<ConfigId>{winners[0], winners[1]});
  for (const ConfigId id : asked) searcher->tell(outcomes[id]);
  CHECK(searcher->likely_next(1) == std::vector<ConfigId>{winners[2]});
}

TEST_CASE("all neighbours of a configuration are candidates, also where the pool is a sample") {
  std::vector<Parameter> parameters = mixed_space().parameters();
  for (std::int64_t p = 0; p < 4; ++p) parameters.push_back(integers("p" + std::to_string(p), {1, 2, 3}));
  const LegalSpace space = full(std::move(parameters));
  REQUIRE(space.size() > 10'000);
  Surrogate surrogate(space);
  Untried untried(space.size());
  Random random(1);
  for (const ConfigId id : some_ids(space, 12, 5)) surrogate.tell(measure(space, id));
  surrogate.fit_if_due(random);
  const ConfigId centre = some_ids(space, 1, 77)[0];
  const auto around = space.neighbours(centre);
  CHECK(surrogate.leaders(untried, centre, space.size()).size() < around.size());
  const auto pick = surrogate.pick(untried, centre, random);
  REQUIRE(pick);
  CHECK(space.are_neighbours(*pick, centre));
  CHECK(surrogate.leaders(untried, centre, space.size()).size() == around.size());
}

}  // namespace moetune::warm_start_test
