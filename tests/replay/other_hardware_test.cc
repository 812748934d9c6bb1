// A search that knows the same problem on another GPU. The published recordings hold different GPUs for
// different kernels only, so the other GPU is made up from the recording.
#include "tests/replay/other_hardware.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "replay/recording.h"
#include "tests/paths.h"
#include "tests/sanitized.h"
#include "tests/search/simulation.h"

using namespace moetune;

namespace {

constexpr std::uint64_t kSeeds = kSanitized ? 1 : 12;
constexpr double kStrength = 0.12;
constexpr double kHardwareApart = 2;  // as tuner/history.h counts another GPU

struct Published {
  Recording recording = read_recording(paths::source("tests/data/pnpoly_RTX_3090.json.gz"));
  std::vector<Observation> here;

  Published() {
    for (std::size_t i = 0; i < recording.trials.size(); ++i) {
      here.push_back({static_cast<ConfigId>(i), recording.trials[i].outcome,
                      static_cast<double>(recording.trials[i].time_us)});
    }
  }

  // What a cold search of 200 trials there is told.
  History history(std::uint64_t seed) const {
    const std::vector<Observation> there = simulate_other_hardware(recording.space, here, seed, kStrength);
    History history{.distance = kHardwareApart};
    for (const ConfigId id :
         simulate(*make_searcher("auto", recording.space, seed + 1000), there, 200).asked) {
      const std::span<const Position> point = recording.space.point(id);
      history.trials.push_back({{point.begin(), point.end()}, there[id].outcome, there[id].time_us});
    }
    return history;
  }

  std::vector<double> best(std::uint64_t seed, const std::vector<History>& histories,
                           std::size_t trials) const {
    const auto searcher = make_searcher("auto", recording.space, seed);
    searcher->warm(histories);
    return simulate(*searcher, here, trials).best_us;
  }
};

ConfigId fastest(const std::vector<Observation>& outcomes) {
  const auto time = [](const Observation& o) { return has_usable_time(o) ? o.time_us : INFINITY; };
  return std::min_element(outcomes.begin(), outcomes.end(),
                          [&](const auto& a, const auto& b) { return time(a) < time(b); })
      ->id;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace

TEST_CASE(
    "a made-up GPU has the failures of the recording, other times, and another winner that is not bad here") {
  const Published published;
  const LegalSpace& space = published.recording.space;
  CHECK(simulate_other_hardware(space, published.here, 1, 0)[5].time_us ==
        doctest::Approx(published.here[5].time_us));
  std::vector<double> regrets;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const std::vector<Observation> there = simulate_other_hardware(space, published.here, seed, kStrength);
    CHECK(there[7].time_us == simulate_other_hardware(space, published.here, seed, kStrength)[7].time_us);
    double sum = 0, squares = 0, count = 0;
    for (ConfigId id = 0; id < space.size(); ++id) {
      REQUIRE(there[id].outcome == published.here[id].outcome);
      if (!has_usable_time(there[id])) continue;
      const double logarithm = std::log(there[id].time_us / published.here[id].time_us);
      sum += logarithm;
      squares += logarithm * logarithm;
      ++count;
    }
    const double deviation = std::sqrt(squares / count - sum / count * (sum / count));
    CHECK(deviation > kStrength / 3);
    CHECK(deviation < 2 * kStrength);
    regrets.push_back(published.here[fastest(there)].time_us / published.recording.optimum_us());
  }
  CHECK(median(regrets) > 1.01);
  CHECK(median(regrets) < 1.2);
}

TEST_CASE(
    "a search that knows the problem on another GPU is ahead of a cold one early, and not behind it late") {
  const Published published;
  const double optimum = published.recording.optimum_us();
  std::vector<double> cold_early, warm_early, cold_late, warm_late;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::vector<double> cold = published.best(seed, {}, 100);
    const std::vector<double> warm = published.best(seed, {published.history(seed)}, 100);
    cold_early.push_back(cold[14] / optimum);
    warm_early.push_back(warm[14] / optimum);
    cold_late.push_back(cold.back() / optimum);
    warm_late.push_back(warm.back() / optimum);
  }
  if (kSanitized) return;  // one search is no sample
  CHECK(median(warm_early) - 1 <= 0.5 * (median(cold_early) - 1));
  CHECK(median(warm_late) <= median(cold_late) + 0.002);
}
