// What a service counts, event by event.
#include "serve/run/metrics.h"

#include <doctest/doctest.h>

namespace moetune::metrics_test {

TEST_CASE("a trial counts as run, or as taken from the cache, and never as both") {
  Metrics metrics;
  Trial trial;
  trial.result.outcome = Outcome::ok;
  const TrialCounts counts;
  const auto has = [&](const char* line) { return metrics.text({}).find(line) != std::string::npos; };
  const auto ended = [&](bool resumed) {
    trial.resumed = resumed;
    metrics.count_event("cuda:0", {.job = 1, .what = TrialEnded{trial, counts, nullptr}});
  };
  ended(true);
  CHECK(has("\nmoetune_trials_resumed_total 1\n"));
  CHECK(has("\nmoetune_trials_total{outcome=\"ok\"} 0\n"));
  ended(false);
  CHECK(has("\nmoetune_trials_resumed_total 1\n"));
  CHECK(has("\nmoetune_trials_total{outcome=\"ok\"} 1\n"));
}

}  // namespace moetune::metrics_test
