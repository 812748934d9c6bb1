#include "tuner/finals.h"

#include <doctest/doctest.h>

#include "tests/tuner/scripted_device.h"

using namespace moetune;

namespace {

Trial trial(ConfigId id, double us, Outcome outcome = Outcome::ok) {
  TrialResult result = timed(us);
  result.outcome = outcome;
  return {.id = id, .result = result};
}

}  // namespace

TEST_CASE("recorded times hold no noise: the fastest comes first, of equals the first text") {
  std::vector<Trial> trials = {trial(1, 100.2), trial(9, 100.0), trial(3, 100.0), trial(4, 1, Outcome::crashed)};
  for (Trial& each : trials) each.config.set("x", moetune::Value::integer(10 - static_cast<int>(each.id)));
  CHECK(rank_recorded(trials) == std::vector<std::size_t>{1, 2, 0, 3});
}

TEST_CASE("the duel ranks by median, failures last") {
  CHECK(rank_duel({trial(0, 30), trial(1, 10), trial(2, 5, Outcome::crashed), trial(3, 20)}) ==
        std::vector<std::size_t>{1, 3, 0, 2});
}

TEST_CASE("medians within the tie go to the lower id, whichever noise put first") {
  CHECK(rank_duel({trial(9, 100.0), trial(4, 100.2)}).front() == 1);
  CHECK(rank_duel({trial(9, 100.2), trial(4, 100.0)}).front() == 1);
  CHECK(rank_duel({trial(9, 100.0), trial(4, 100.5)}).front() == 0);
}

TEST_CASE("a tie with the default goes to the default") {
  const std::vector<Trial> close = {trial(4, 100.0), trial(9, 100.2)};
  CHECK(rank_duel(close, 9).front() == 1);
  CHECK(rank_duel(close, 7).front() == 0);
  CHECK(rank_duel({trial(4, 100.0), trial(9, 100.5)}, 9).front() == 0);
  CHECK(rank_duel({trial(4, 100.0), trial(9, 100.1, Outcome::crashed)}, 9).front() == 0);
}

TEST_CASE("a chain of near equals does not lift a slow one to the front") {
  CHECK(rank_duel({trial(9, 100.0), trial(5, 100.25), trial(1, 100.5)}).front() == 1);
}
