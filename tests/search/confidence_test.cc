#include "search/confidence.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "search/random.h"
#include "tests/search/simulation.h"

using namespace moetune;

namespace {

LegalSpace square(std::size_t side) {
  Parameter x{"x", {}, ""};
  Parameter y{"y", {}, ""};
  std::vector<Position> rows;
  for (std::size_t i = 0; i < side; ++i) {
    x.values.push_back(Value::integer(static_cast<std::int64_t>(i + 1)));
    y.values.push_back(Value::integer(static_cast<std::int64_t>(i + 1)));
    for (std::size_t k = 0; k < side; ++k) {
      rows.push_back(static_cast<Position>(i));
      rows.push_back(static_cast<Position>(k));
    }
  }
  return LegalSpace({x, y}, rows);
}

std::vector<Observation> bowl_trials(const LegalSpace& space) {
  std::vector<Observation> all;
  for (ConfigId id = 0; id < space.size(); ++id) {
    const double x = std::log2(1.0 + space.point(id)[0]) - 3;
    const double y = std::log2(1.0 + space.point(id)[1]) - 2;
    all.push_back({id, Outcome::ok, 10 + 5 * (x * x + y * y)});
  }
  return all;
}

}  // namespace

TEST_CASE("confidence grows, and the expected gain shrinks, as a search goes on") {
  const LegalSpace space = square(20);
  const std::vector<Observation> outcomes = bowl_trials(space);
  const SimulatedRun run = simulate(*make_searcher("auto", space, 1), outcomes, 60, 1);
  std::vector<Observation> told;
  for (const ConfigId id : run.asked) told.push_back(outcomes[id]);
  const std::span<const Observation> trials(told);
  const Confidence early = assess(space, trials.first(6));
  const Confidence late = assess(space, trials);
  REQUIRE(early.known);
  REQUIRE(late.known);
  CHECK(late.within_5_percent > 0.65);  // times of this bowl differ as much as in the hardest recorded space
  CHECK(late.within_5_percent > early.within_5_percent + 0.1);
  CHECK(late.within_5_percent <= 1);
  CHECK(late.expected_gain < 0.01);
  CHECK(late.expected_gain <= early.expected_gain);
  CHECK(late.expected_gain >= 0);
}

TEST_CASE("the worst corner of a space gives little confidence and a large expected gain") {
  const LegalSpace space = square(20);
  const std::vector<Observation> outcomes = bowl_trials(space);
  std::vector<Observation> slow;
  for (ConfigId id = 0; id < space.size(); ++id) {
    if (outcomes[id].time_us > 45) slow.push_back(outcomes[id]);
  }
  REQUIRE(slow.size() > 5);
  const Confidence confidence = assess(space, slow);
  REQUIRE(confidence.known);
  CHECK(confidence.within_5_percent < 0.5);
  CHECK(confidence.expected_gain > 0.05);
}

TEST_CASE("a space that was tried through is certain, and one in which nothing worked is unknown") {
  const LegalSpace space = square(4);
  const std::vector<Observation> all = bowl_trials(space);
  const Confidence done = assess(space, all);
  CHECK(done.known);
  CHECK(done.within_5_percent == 1);
  CHECK(done.expected_gain == 0);

  std::vector<Observation> failed;
  for (ConfigId id = 0; id < space.size(); ++id) failed.push_back({id, Outcome::crashed, 0});
  CHECK_FALSE(assess(space, failed).known);
  CHECK_FALSE(assess(space, {}).known);
}

TEST_CASE("odd times, repeats and foreign ids change nothing about what a confidence may be") {
  const LegalSpace space = square(6);
  Random random(8);
  const double odd[] = {
      0, -3, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e-300, 1e300, 5};
  for (int round = 0; round < 50; ++round) {
    std::vector<Observation> trials;
    for (int i = 0; i < 30; ++i) {
      trials.push_back(
          {static_cast<ConfigId>(random.below(45)), kOutcomes[random.below(kOutcomes.size())], odd[random.below(7)]});
    }
    const Confidence confidence = assess(space, trials);
    if (!confidence.known) continue;
    CHECK(confidence.within_5_percent >= 0);
    CHECK(confidence.within_5_percent <= 1);
    CHECK(std::isfinite(confidence.expected_gain));
    CHECK(confidence.expected_gain >= 0);
  }
}

TEST_CASE("a floor bounds the gain: near it the best is within 5% for sure, far from it nothing changes") {
  const LegalSpace space = square(20);
  const std::vector<Observation> outcomes = bowl_trials(space);
  std::vector<Observation> slow;
  for (ConfigId id = 0; id < space.size(); ++id) {
    if (outcomes[id].time_us > 45) slow.push_back(outcomes[id]);
  }
  const double best = std::min_element(slow.begin(), slow.end(), [](const auto& a, const auto& b) {
                        return a.time_us < b.time_us;
                      })->time_us;
  const Confidence free = assess(space, slow);
  const Confidence far = assess(space, slow, best / 100);
  CHECK(far.within_5_percent == free.within_5_percent);
  CHECK(far.expected_gain == free.expected_gain);
  CHECK_FALSE(far.at_floor);

  const Confidence above = assess(space, slow, best / 1.06);
  CHECK_FALSE(above.at_floor);
  CHECK(above.within_5_percent == free.within_5_percent);
  CHECK(above.expected_gain == doctest::Approx(1 - 1 / 1.06));

  const Confidence near = assess(space, slow, best / 1.03);
  CHECK(near.at_floor);
  CHECK(near.within_5_percent >= 0.99);
  CHECK(near.expected_gain == doctest::Approx(1 - 1 / 1.03));
}

TEST_CASE("a floor that the best has undercut is none, and one trial at the floor is enough to be sure") {
  const LegalSpace space = square(20);
  const std::vector<Observation> outcomes = bowl_trials(space);
  const std::vector<Observation> one = {outcomes[7]};
  CHECK_FALSE(assess(space, one).known);
  CHECK_FALSE(assess(space, one, outcomes[7].time_us * 1.1).known);
  const Confidence at_floor = assess(space, one, outcomes[7].time_us * 1.01);  // the error of a ceiling
  CHECK(at_floor.known);
  CHECK(at_floor.at_floor);
  CHECK(at_floor.expected_gain == 0);
  CHECK_FALSE(assess(space, one, std::numeric_limits<double>::quiet_NaN()).known);
  CHECK_FALSE(assess(space, {}, 10).known);
}
