// What may go wrong around a strategy, in random spaces: nothing works, times that are none, results told
// twice or of configurations that were never asked, budgets larger than the space, spaces of one and of none.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <set>

#include "search/confidence.h"
#include "search/random.h"
#include "search/searcher.h"
#include "search/space.h"
#include "tests/search/random_space.h"

using namespace moetune;

namespace {

constexpr std::size_t kLargest = 300;  // legal configurations, so that every strategy can try them all

LegalSpace random_space(std::uint64_t seed) {
  const RandomSpace random(seed);
  return Space::parse(random.json(), "random.json").enumerate(random.environment());
}

// Calls `check` for every strategy in random spaces, empty ones among them.
void for_all(const std::function<void(const std::string&, const LegalSpace&, Random&)>& check) {
  std::size_t spaces = 0, empty = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const LegalSpace space = random_space(seed);
    if (space.size() > kLargest) continue;
    ++spaces;
    empty += space.empty();
    CAPTURE(seed);
    for (const StrategyInfo& strategy : strategies()) {
      CAPTURE(strategy.name);
      Random random(seed);
      check(strategy.name, space, random);
    }
  }
  CHECK(spaces >= 20);
  CHECK(empty >= 1);
}

using Measure = std::function<Observation(ConfigId)>;

// Asks with up to `in_flight` open until nothing more comes, far beyond the size of the space, and tells in
// the order of the asks; `between` may tell what it likes after each.
std::multiset<ConfigId> drive_to_the_end(
    Searcher& searcher, std::size_t in_flight, const Measure& measure, const std::function<void()>& between = [] {}) {
  std::multiset<ConfigId> asked;
  std::deque<ConfigId> open;
  for (;;) {
    for (const ConfigId id : searcher.ask(in_flight - open.size())) {
      asked.insert(id);
      open.push_back(id);
    }
    if (open.empty() || asked.size() > 2 * kLargest) return asked;
    searcher.tell(measure(open.front()));
    open.pop_front();
    between();
  }
}

bool is_whole(const std::multiset<ConfigId>& asked, const LegalSpace& space) {
  ConfigId next = 0;
  for (const ConfigId id : asked) {
    if (id != next++) return false;
  }
  return next == space.size();
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNoTimes[] = {0, -0.0, -1, kNaN, kInfinity, -kInfinity};

Observation sound(ConfigId id) { return {id, Outcome::ok, 1.0 + id % 17}; }

Observation anything(ConfigId id, Random& random) {
  const double time = random.below(3) == 0 ? kNoTimes[random.below(std::size(kNoTimes))] : 1 + random.unit();
  return {id, kOutcomes[random.below(kOutcomes.size())], time};
}

}  // namespace

TEST_CASE("where every configuration fails, each is asked once and the search ends") {
  for_all([](const std::string& strategy, const LegalSpace& space, Random& random) {
    for (const std::size_t in_flight : {1, 16, 1000}) {
      const auto searcher = make_searcher(strategy, space, random.below(1000));
      const auto asked = drive_to_the_end(*searcher, in_flight, [&](ConfigId id) {
        const Outcome outcome = kOutcomes[random.below(kOutcomes.size())];
        return Observation{id, has_time(outcome) ? Outcome::crashed : outcome, 0};
      });
      CHECK(is_whole(asked, space));
      CHECK(searcher->ask(5).empty());
    }
  });
}

TEST_CASE("times that are no times count as failures, and end no search early") {
  for_all([](const std::string& strategy, const LegalSpace& space, Random& random) {
    const auto searcher = make_searcher(strategy, space, random.below(1000));
    std::vector<Observation> told;
    const auto asked = drive_to_the_end(*searcher, 1 + random.below(20), [&](ConfigId id) {
      told.push_back({id, Outcome::ok, kNoTimes[random.below(std::size(kNoTimes))]});
      return told.back();
    });
    CHECK(is_whole(asked, space));
    CHECK_FALSE(assess(space, told).known);
  });
}

TEST_CASE("results that are told again, as they were or otherwise, change nothing of what is left to ask") {
  for_all([](const std::string& strategy, const LegalSpace& space, Random& random) {
    const auto searcher = make_searcher(strategy, space, random.below(1000));
    std::vector<ConfigId> told;
    const auto asked = drive_to_the_end(
        *searcher, 1 + random.below(20),
        [&](ConfigId id) {
          told.push_back(id);
          return anything(id, random);
        },
        [&] {
          searcher->tell(anything(told[random.below(told.size())], random));
          searcher->tell(sound(told.back()));
        });
    CHECK(is_whole(asked, space));
  });
}

TEST_CASE("what was told and never asked is never asked later, and ids beyond the space are ignored") {
  for_all([](const std::string& strategy, const LegalSpace& space, Random& random) {
    const auto searcher = make_searcher(strategy, space, random.below(1000));
    std::set<ConfigId> out;        // asked, or told by itself
    std::multiset<ConfigId> late;  // asked after it was told
    const auto tell_by_itself = [&] {
      const auto beyond = static_cast<ConfigId>(space.size() + random.below(100));
      searcher->tell(anything(beyond, random));
      searcher->tell(anything(std::numeric_limits<ConfigId>::max(), random));
      if (space.empty()) return;
      const auto id = static_cast<ConfigId>(random.below(space.size()));
      searcher->tell(anything(id, random));
      out.insert(id);
    };
    for (int i = 0; i < 5; ++i) tell_by_itself();
    for (std::size_t round = 0; round < 2 * kLargest; ++round) {
      const std::vector<ConfigId> ids = searcher->ask(1 + random.below(4));
      if (ids.empty()) break;
      for (const ConfigId id : ids) {
        REQUIRE(id < space.size());
        if (!out.insert(id).second) late.insert(id);
      }
      for (const ConfigId id : ids) searcher->tell(sound(id));
      tell_by_itself();
    }
    CHECK(late.empty());
    CHECK(out.size() == space.size());
    CHECK(searcher->ask(100).empty());
  });
}

TEST_CASE("none and one configuration left of a random space end cleanly, whatever is told") {
  for_all([](const std::string& strategy, const LegalSpace& space, Random& random) {
    const LegalSpace none(space.parameters(), {});
    const auto idle = make_searcher(strategy, none, random.below(1000));
    CHECK(idle->ask(1 + random.below(100)).empty());
    idle->tell(anything(static_cast<ConfigId>(random.below(3)), random));
    CHECK(idle->ask(7).empty());
    CHECK(idle->likely_next(7).empty());
    CHECK_FALSE(assess(none, std::vector<Observation>{sound(0)}).known);
    if (space.empty()) return;

    const std::span<const Position> point = space.point(static_cast<ConfigId>(random.below(space.size())));
    const LegalSpace single(space.parameters(), {point.begin(), point.end()});
    for (const bool works : {true, false}) {
      const auto one = make_searcher(strategy, single, random.below(1000));
      CHECK(one->ask(0).empty());
      CHECK(one->ask(1 + random.below(100)) == std::vector<ConfigId>{0});
      CHECK(one->ask(3).empty());
      one->tell(works ? sound(0) : Observation{0, Outcome::timed_out, 0});
      CHECK(one->ask(3).empty());
      CHECK(one->likely_next(3).empty());
    }
  });
}

TEST_CASE("a history of rubbish leaves every configuration to be asked once") {
  for_all([](const std::string& strategy, const LegalSpace& space, Random& random) {
    std::vector<History> histories(1 + random.below(4));
    for (History& history : histories) {
      history.distance = random.below(5) == 0 ? kNaN : 8 * random.unit();
      for (std::uint64_t i = random.below(30); i > 0; --i) {
        std::vector<Position> point(space.parameters().size() + random.below(8) / 7);
        for (Position& position : point) position = static_cast<Position>(random.below(7));
        const Observation trial = anything(0, random);
        history.trials.push_back({std::move(point), trial.outcome, trial.time_us});
      }
    }
    const auto searcher = make_searcher(strategy, space, random.below(1000));
    searcher->warm(histories);
    const auto asked = drive_to_the_end(*searcher, 1 + random.below(20), [&](ConfigId id) {
      CHECK(searcher->likely_next(3).size() <= 3);
      return anything(id, random);
    });
    CHECK(is_whole(asked, space));
  });
}
