#include "tuner/tune.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/tuner/grid_search.h"

using namespace moetune;

TEST_CASE("a budget is a number of distinct trials") {
  Search search;
  const TuneResult result = search.run();
  CHECK(result.counts.total() == 40);
  CHECK(std::set(search.device.ran.begin(), search.device.ran.end()).size() == 40);
  CHECK_FALSE(result.exhausted);
}

TEST_CASE("a budget beyond the space tries every configuration once and finds the optimum") {
  Search search;
  search.request.budget = 1000;
  const TuneResult result = search.run();
  CHECK(result.exhausted);
  CHECK(result.counts.total() == 64);
  REQUIRE(result.best);
  CHECK(result.best->config.text() == "x=3,y=5");
}

TEST_CASE("an empty space ends at once with nothing found") {
  Search search;
  search.space = LegalSpace(grid().parameters(), {});
  const TuneResult result = search.run();
  CHECK(result.exhausted);
  CHECK_FALSE(result.best);
}

TEST_CASE("one seed gives one trajectory, another seed another") {
  Search first, second, third;
  third.request.seed = 2;
  first.run();
  second.run();
  third.run();
  CHECK(first.device.ran == second.device.ran);
  CHECK(first.device.ran != third.device.ran);
}

TEST_CASE("the default is the first trial and meets the winner in the duel") {
  Search search;
  search.request.default_config = Config{{"x", Value::integer(7)}, {"y", Value::integer(0)}};
  const TuneResult result = search.run();
  CHECK(search.device.ran.front() == "x=7,y=0");
  REQUIRE(result.baseline);
  CHECK(result.baseline->result.measurement.median_us == doctest::Approx(510));
}

TEST_CASE("candidates far behind the best are dropped, at one and a half times its time") {
  Search search;
  search.run();
  CHECK(std::isinf(search.device.drop_limits.front()));
  double best = landscape(search.space.config(0)) * 100;
  for (std::size_t i = 0; i < search.device.ran.size(); ++i) {
    if (i > 0) CHECK(search.device.drop_limits[i] == doctest::Approx(1.5 * best));
    best = std::min(best, landscape(search.space.config(*search.space.find_text(search.device.ran[i]))));
  }
}

TEST_CASE("failures are counted by kind and never win") {
  Search search;
  search.request.budget = 64;
  search.device.answer = [](const Config& config) {
    if (config.number("x") == 3) return TrialResult{.outcome = Outcome::wrong_result, .message = "off"};
    if (config.number("x") == 4) return TrialResult{.outcome = Outcome::crashed, .message = "signal 11"};
    return timed(landscape(config));
  };
  const TuneResult result = search.run();
  CHECK(result.counts[Outcome::wrong_result] == 8);
  CHECK(result.counts[Outcome::crashed] == 8);
  REQUIRE(result.best);
  CHECK(result.best->config.text() == "x=2,y=5");
}

TEST_CASE("when every candidate fails there is no winner and no endless loop") {
  Search search;
  search.request.budget = 1000;
  search.device.answer = [](const Config&) { return TrialResult{.outcome = Outcome::launch_failed, .message = "no"}; };
  const TuneResult result = search.run();
  CHECK(result.counts[Outcome::launch_failed] == 64);
  CHECK_FALSE(result.best);
}

TEST_CASE("a time that is no number, nothing or less is a failure and never wins") {
  for (const double odd : {0.0, -5.0, std::nan(""), HUGE_VAL}) {
    CAPTURE(odd);
    Search search;
    search.request.strategy = "auto";
    search.request.budget = 64;
    search.device.answer = [&](const Config& config) {
      return timed(config.number("x") % 2 == 1 ? odd : landscape(config));
    };
    const TuneResult result = search.run();
    CHECK(result.counts[Outcome::launch_failed] == 32);
    CHECK(result.counts.total() == 64);
    REQUIRE(result.best);
    CHECK(result.best->config.number("x") % 2 == 0);
    CHECK(result.best->result.measurement.median_us == doctest::Approx(110));
  }
}

TEST_CASE("the duel decides, not the luckiest sample") {
  Search search;
  search.request.budget = 64;
  search.device.answer = [](const Config& config) {
    return timed(config.text() == "x=0,y=0" ? 95.0 : landscape(config));  // one lucky trial
  };
  search.device.duel_answer = [](const Config& config) { return timed(landscape(config)); };
  const TuneResult result = search.run();
  REQUIRE(result.best);
  CHECK(result.best->config.text() == "x=3,y=5");
}

TEST_CASE("where times depend on what power others draw, winner and default are timed by themselves") {
  Search search;
  search.request.default_config = Config{{"x", Value::integer(7)}, {"y", Value::integer(0)}};
  const auto following = [](double us) {
    TrialResult result = timed(us);
    result.measurement.follows_clock = true;
    return result;
  };
  double of_winner = 104;
  search.device.duel_answer = [&](const Config& config) {
    return following(config.text() == "x=3,y=5" ? 99 : config.text() == "x=7,y=0" ? 100 : 200);
  };
  search.device.alone_answer = [&](const Config& config) {
    return following(config.text() == "x=7,y=0" ? 103 : of_winner);
  };
  search.request.budget = 64;
  const TuneResult overtaken = search.run();
  REQUIRE(overtaken.best);
  CHECK(overtaken.best->config.text() == "x=7,y=0");
  CHECK(overtaken.best->result.measurement.median_us == 103);
  CHECK(overtaken.winner.config.text() == "x=7,y=0");
  of_winner = 101;
  const TuneResult stands = search.run();
  CHECK(stands.best->config.text() == "x=3,y=5");
  CHECK(stands.best->result.measurement.median_us == 101);
  CHECK(stands.baseline->result.measurement.median_us == 103);
  of_winner = 104;  // but the default is wrong on fresh inputs
  search.device.wrong_on_fresh_inputs = {"x=7,y=0"};
  CHECK(search.run().best->config.text() == "x=3,y=5");
}

TEST_CASE("a winner that is wrong on fresh inputs gives way to the next") {
  Search search;
  search.request.budget = 64;
  search.device.wrong_on_fresh_inputs = {"x=3,y=5"};
  const TuneResult result = search.run();
  REQUIRE(result.best);
  CHECK(result.best->config.text() == "x=2,y=5");  // the lowest ConfigId of the four equals
}

TEST_CASE("a search that may end where little is to be gained ends before its budget, and says how sure it is") {
  Search search;
  search.request.strategy = "local";
  search.request.budget = 64;
  search.request.in_flight = 1;
  search.request.until_gain = 0.5;
  const TuneResult result = search.run();
  CHECK(result.converged);
  CHECK(result.counts.total() >= 40);
  CHECK(result.counts.total() < 64);
  REQUIRE(result.confidence.known);
  CHECK(result.confidence.expected_gain < 0.5);
  CHECK(result.best);
}

TEST_CASE("when no finalist stands, the next best meet, until one does or none is left") {
  Search search, hopeless;
  search.request.budget = hopeless.request.budget = 64;
  search.request.drop_factor = hopeless.request.drop_factor = 100;
  search.device.duel_answer = [](const Config& config) {
    if (landscape(config) < 130) return TrialResult{.outcome = Outcome::crashed, .message = "signal 11"};
    return timed(landscape(config));
  };
  const TuneResult result = search.run();
  REQUIRE(result.best);
  CHECK(landscape(result.best->config) == 140);
  hopeless.device.duel_answer = [](const Config&) { return TrialResult{.outcome = Outcome::wrong_result}; };
  CHECK_FALSE(hopeless.run().best);
}

TEST_CASE("the winner's times under all timings are measured, and who would win there") {
  Search search;
  search.request.budget = 1000;
  search.request.policy.timing = Timing::chained;
  search.request.all_timings = true;
  search.device.timed_duel_answer = [](const Config& config, Timing timing) {
    // Alone another one is faster; overlapped it is a tie.
    const bool other = config.text() == "x=3,y=4";
    if (timing == Timing::alone) return timed(other ? 150 : 2 * landscape(config));
    if (timing == Timing::overlapped) return timed(other ? 89.9 : 0.9 * landscape(config));
    return timed(landscape(config));
  };
  const TuneResult result = search.run();
  CHECK(search.device.timings.front() == Timing::chained);
  REQUIRE(result.best);
  CHECK(result.best->config.text() == "x=3,y=5");
  REQUIRE(result.timings.size() == 3);
  CHECK(result.timings[0] == TimingResult{Timing::chained, 100, 0, "x=3,y=5", 100});
  CHECK(result.timings[1].timing == Timing::overlapped);
  CHECK(result.timings[1].winner_us == doctest::Approx(90));
  CHECK(result.timings[1].fastest == "x=3,y=5");
  CHECK(result.timings[2] == TimingResult{Timing::alone, 200, 0, "x=3,y=4", 150});
  CHECK(differing_timings(result.timings, "x=3,y=5") == std::vector{Timing::alone});
  CHECK(parse_timings(timings_text(result.timings)) == result.timings);
}

TEST_CASE("nobody pays for timings that were not asked for") {
  Search search;
  search.request.policy.timing = Timing::chained;
  const TuneResult result = search.run();
  REQUIRE(result.best);
  CHECK(result.timings.empty());
  CHECK(search.device.timings == std::vector{Timing::chained});
}

TEST_CASE("stored timings that nobody wrote are none") {
  for (const char* text : {"", "{", "[]", "7", R"({"chained": 3})", R"({"chained": {"time_us": 1}})",
                           R"({"chained": {"fastest": 4}})", R"({"sideways": {"fastest": "x=1"}})"}) {
    CAPTURE(text);
    CHECK(parse_timings(text).empty());
  }
  const auto odd = parse_timings(R"({"alone": {"fastest": "x=1", "time_us": -3, "fastest_us": "long"}})");
  REQUIRE(odd.size() == 1);
  CHECK(odd[0] == TimingResult{Timing::alone, 0, 0, "x=1", 0});
}
