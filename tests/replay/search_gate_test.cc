// The gate against a worse search: `auto` on small recorded spaces, with bounds a little above what it
// reaches (docs/search.md has the real benchmark). Deterministic, so that it fails for a change of the engine
// alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "replay/recording.h"
#include "replay/shipped.h"
#include "search/confidence.h"
#include "tests/paths.h"
#include "tests/sanitized.h"
#include "tests/search/simulation.h"

using namespace moetune;

namespace {

constexpr std::uint64_t kGateSeeds = kSanitized ? 2 : 12;

std::vector<Observation> outcomes_of(const Recording& recording) {
  std::vector<Observation> outcomes;
  for (std::size_t i = 0; i < recording.trials.size(); ++i) {
    outcomes.push_back(
        {static_cast<ConfigId>(i), recording.trials[i].outcome, static_cast<double>(recording.trials[i].time_us)});
  }
  return outcomes;
}

Recording published() { return read_recording(paths::source("tests/data/pnpoly_RTX_3090.json.gz")); }

// The bounds of a figure over all seeds, and over the two that a sanitizer has time for.
double at_most(double of_all, double of_two) { return kSanitized ? of_two : of_all; }

// Median over the seeds of best time over optimum, after `trials`.
double median_regret(const Recording& recording, const char* strategy, std::size_t trials, std::size_t in_flight = 1) {
  const std::vector<Observation> outcomes = outcomes_of(recording);
  std::vector<double> regrets;
  for (std::uint64_t seed = 1; seed <= kGateSeeds; ++seed) {
    const auto searcher = make_searcher(strategy, recording.space, seed);
    const SimulatedRun run = simulate(*searcher, outcomes, trials, in_flight);
    REQUIRE_FALSE(run.repeated);
    REQUIRE(run.best_us.size() == trials);
    regrets.push_back(run.best_us.back() / recording.optimum_us());
  }
  std::sort(regrets.begin(), regrets.end());
  return (regrets[(kGateSeeds - 1) / 2] + regrets[kGateSeeds / 2]) / 2;
}

}  // namespace

TEST_CASE("auto stays as good as it was on a published space in which one configuration in thirteen fails") {
  const Recording recording = published();
  CHECK(median_regret(recording, "auto", 25) <= at_most(1.08, 1.16));
  CHECK(median_regret(recording, "auto", 50) <= at_most(1.03, 1.08));
  CHECK(median_regret(recording, "auto", 100) <= at_most(1.003, 1.16));
  CHECK(median_regret(recording, "auto", 100, 32) <= at_most(1.01, 1.16));
  if (kSanitized) return;  // two seeds do not tell them apart
  CHECK(median_regret(recording, "auto", 100) <= median_regret(recording, "random", 100) - 0.02);
}

// Batch 1 is the hardest of the shipped shapes: few configurations are near the best.
TEST_CASE("auto stays as good as it was on a recorded attention kernel") {
  for (const ShippedRecording& shipped : list_shipped_recordings()) {
    if (shipped.header.kernel != "decode_attention" || !shipped.header.problem.starts_with("batch=1,")) continue;
    CAPTURE(shipped.header.problem);
    const Recording recording = shipped.read();
    const double reached = median_regret(recording, "auto", 50);
    CHECK(reached <= at_most(1.02, 1.02));
    CHECK(reached <= median_regret(recording, "random", 50) - 0.02);
    return;
  }
  FAIL("no recording of decode_attention at batch 1 is shipped");
}

TEST_CASE("failing configurations stay in the replayed space, cost a trial and are learnt to be avoided") {
  const Recording recording = published();
  const std::vector<Observation> outcomes = outcomes_of(recording);
  const auto fails = [&](ConfigId id) { return !has_usable_time(outcomes[id]); };
  const auto all = static_cast<double>(
      std::count_if(outcomes.begin(), outcomes.end(), [](const Observation& o) { return !has_usable_time(o); }));
  CHECK(all == 318);
  double failed = 0;
  for (std::uint64_t seed = 1; seed <= kGateSeeds; ++seed) {
    const SimulatedRun run = simulate(*make_searcher("auto", recording.space, seed), outcomes, 60);
    CHECK(run.asked.size() == 60);
    failed += static_cast<double>(std::count_if(run.asked.begin(), run.asked.end(), fails));
  }
  if (kSanitized) return;
  CHECK(failed > 0);
  CHECK(failed / (60.0 * kGateSeeds) < all / static_cast<double>(outcomes.size()));
}

TEST_CASE("no state leaks between seeds: searches side by side go the way that each goes alone") {
  const Recording recording = published();
  const std::vector<Observation> outcomes = outcomes_of(recording);
  const auto alone = [&](std::uint64_t seed) {
    return simulate(*make_searcher("auto", recording.space, seed), outcomes, 50).asked;
  };
  const std::vector<ConfigId> first = alone(1);
  const std::vector<ConfigId> second = alone(2);
  CHECK(first != second);

  const auto a = make_searcher("auto", recording.space, 1);
  const auto b = make_searcher("auto", recording.space, 2);
  std::vector<ConfigId> asked_a;
  std::vector<ConfigId> asked_b;
  const auto step = [&](Searcher& searcher, std::vector<ConfigId>& asked) {
    asked.push_back(searcher.ask(1).at(0));
    searcher.tell(outcomes[asked.back()]);
  };
  for (int trial = 0; trial < 50; ++trial) {
    step(*a, asked_a);
    step(*b, asked_b);
  }
  CHECK(asked_a == first);
  CHECK(asked_b == second);
}

TEST_CASE("the stated confidence agrees with what was found on a published space") {
  const Recording recording = published();
  const std::vector<Observation> outcomes = outcomes_of(recording);
  double stated = 0;
  double within = 0;
  const std::uint64_t seeds = kSanitized ? kGateSeeds : 5 * kGateSeeds;  // a share of 60 is known to 0.065
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const SimulatedRun run = simulate(*make_searcher("auto", recording.space, seed), outcomes, 40);
    std::vector<Observation> told;
    for (const ConfigId id : run.asked) told.push_back(outcomes[id]);
    const Confidence confidence = assess(recording.space, told);
    REQUIRE(confidence.known);
    stated += confidence.within_5_percent / static_cast<double>(seeds);
    within += run.best_us.back() <= 1.05 * recording.optimum_us() ? 1.0 / static_cast<double>(seeds) : 0;
  }
  if (kSanitized) return;  // two searches are no sample
  CHECK(stated > within - 0.16);
  CHECK(stated < within + 0.16);
}
