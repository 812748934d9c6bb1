// What a search does while somebody else uses its device: it waits, measures again, or marks.
#include <doctest/doctest.h>

#include <map>

#include "tests/tuner/contention_events.h"
#include "tests/tuner/grid_search.h"
#include "tests/tuner/temporary_cache.h"
#include "tuner/history.h"
#include "tuner/quiet_watch.h"
#include "tuner/trial_record.h"
#include "tuner/worker/canary.h"

using namespace moetune;

namespace {

CanaryReading quiet() { return {.elapsed_us = 5000, .lost_us = 0}; }
CanaryReading sliced() { return {.elapsed_us = 5000, .lost_us = 2500, .longest_gap_us = 2000}; }

// A search on a device that somebody else uses from its `from`th run until `canaries` have seen it. Times are
// doubled meanwhile, but for the slowest corner, whose times are a tenth: a load that moves the optimum.
struct LoadedSearch : Search {
  explicit LoadedSearch(std::size_t from_, int canaries) : from(from_), left(canaries) {
    request.quiet_wait_s = 60;
    device.answer = [this](const Config& config) {
      const double us = landscape(config);
      return timed(!is_loaded() ? us : config.number("x") == 7 ? us / 10 : 2 * us);
    };
    device.canary_answer = [this] {
      if (!is_loaded()) return quiet();
      --left;
      return sliced();
    };
  }
  bool is_loaded() const { return device.ran.size() >= from && left > 0; }

  std::size_t from;
  int left;
};

// Kinds of events, in order.
struct Heard {
  std::vector<std::string> kinds;
  std::size_t again = 0;
  Events events() {
    return {.listener = [this](const Event& event) {
      note_contention(event, kinds);
      if (const auto* trial = std::get_if<TrialEnded>(&event.what)) again += trial->again;
    }};
  }
};

double stored_time(const TemporaryCache& stored, const std::string& config) {
  for (const TrialRecord& record : stored.cache.trials.of(stored.workload)) {
    if (record.config == config) return record.time_us;
  }
  return 0;
}

std::size_t contended_trials(const TemporaryCache& stored) {
  std::size_t count = 0;
  for (const TrialRecord& record : stored.cache.trials.of(stored.workload)) count += record.contended;
  return count;
}

}  // namespace

TEST_CASE("a canary that lost time or ran slowly is disturbed; a quiet and a throttled one are not") {
  CHECK_FALSE(quiet().is_disturbed());
  CHECK(sliced().is_disturbed());
  CHECK_FALSE(CanaryReading{.elapsed_us = 5000, .lost_us = 100, .longest_gap_us = 100}.is_disturbed());
  CHECK(CanaryReading{.elapsed_us = 5000, .slow_share = 0.5}.is_disturbed());
  CHECK_FALSE(CanaryReading{.elapsed_us = 5000, .slow_share = 0.01, .throttled = true}.is_disturbed());
  // Processes that compute nothing are no disturbance.
  CHECK_FALSE(CanaryReading{.elapsed_us = 5000, .other_processes = 3}.is_disturbed());
}

TEST_CASE("a canary's blocks together: the longest gap of any, slow windows of all") {
  const std::vector<CanaryPartial> blocks = {{1000, 5'001'000, 0, 0, 900, 0, 8192},
                                             {2000, 5'003'000, 2'100'000, 2'000'000, 600, 300, 8192}};
  const CanaryReading reading = merge_canary(blocks);
  CHECK(reading.elapsed_us == doctest::Approx(5002));
  CHECK(reading.lost_us == doctest::Approx(2100));
  CHECK(reading.longest_gap_us == doctest::Approx(2000));
  CHECK(reading.slow_share == doctest::Approx(0.2));
}

TEST_CASE("a load in the middle of a search: it waits, measures again, and finds and stores what is true") {
  for (const char* strategy : {"auto", "model", "local", "random"}) {
    CAPTURE(strategy);
    TemporaryCache stored;
    LoadedSearch search(10, 4);
    search.request.strategy = strategy;
    search.request.budget = 64;
    Heard heard;
    const TuneResult result = search.run(&stored.cache, stored.workload, {}, heard.events());
    CHECK(heard.kinds == std::vector<std::string>{"disturbed", "quiet"});
    CHECK(heard.again == result.contention.again);
    CHECK(result.contention.again > 0);
    CHECK(result.contention.contended == 0);
    CHECK_FALSE(result.contention.gave_up);
    CHECK(result.contention.waited_s > 0);
    CHECK(result.time.disturbed >= result.contention.waited_s);
    REQUIRE(result.best);
    CHECK(result.best->result.measurement.median_us == 100);
    CHECK_FALSE(result.best->result.contended);
    CHECK(result.counts.total() == 64);
    CHECK(contended_trials(stored) == 0);
    for (const Trial& trial : result.trials) {
      CHECK(trial.result.measurement.median_us == landscape(trial.config));
      CHECK(stored_time(stored, trial.config.text()) == landscape(trial.config));
    }
  }
}

TEST_CASE("a load that never ends: the search says so once, marks its trials and its best, and ends") {
  TemporaryCache stored;
  LoadedSearch search(0, kForEver);
  search.request.quiet_wait_s = 0;
  Heard heard;
  const TuneResult result = search.run(&stored.cache, stored.workload, {}, heard.events());
  CHECK(heard.kinds == std::vector<std::string>{"disturbed", "contended"});
  CHECK(result.contention.gave_up);
  CHECK(result.contention.contended == 40);
  CHECK(contended_trials(stored) == 40);
  REQUIRE(result.best);
  CHECK(result.best->result.contended);
  CHECK_FALSE(result.confidence.known);

  // On a quiet device all of it is measured again.
  Search after;
  const TuneResult sound = after.run(&stored.cache, stored.workload);
  CHECK(sound.counts.resumed == 0);
  CHECK(after.device.ran.size() == 40);
  CHECK(contended_trials(stored) == 0);
  REQUIRE(sound.best);
  CHECK_FALSE(sound.best->result.contended);
}

TEST_CASE("once a search gave up waiting, what it measures after the load is sound") {
  TemporaryCache stored;
  LoadedSearch search(0, 3);
  search.request.quiet_wait_s = 0;
  const TuneResult result = search.run(&stored.cache, stored.workload);
  CHECK(result.contention.gave_up);
  CHECK(result.contention.contended > 0);
  CHECK(result.contention.contended < 40);
  CHECK(contended_trials(stored) == result.contention.contended);
  REQUIRE(result.best);
  CHECK_FALSE(result.best->result.contended);
}

TEST_CASE("waiting ends with the search's own time limit, and at once with a stop request") {
  LoadedSearch hasty(0, kForEver);
  hasty.request.time_budget_s = 0.3;
  const TuneResult result = hasty.run();
  CHECK(result.contention.gave_up);
  CHECK(result.contention.waited_s < 100);

  LoadedSearch stopped(0, kForEver);
  std::stop_source stop;
  stopped.device.canary_answer = [&] {
    stop.request_stop();
    return sliced();
  };
  CHECK(stopped.run(nullptr, 0, stop.get_token()).interrupted);
}

TEST_CASE("what a stopped search measured after its last canary is unverified, and is measured again") {
  TemporaryCache stored;
  Search search;
  std::stop_source stop;
  search.device.canary_answer = quiet;
  search.device.answer = [&](const Config& config) {
    if (search.device.ran.size() == 20) stop.request_stop();
    return timed(landscape(config));
  };
  const TuneResult result = search.run(&stored.cache, stored.workload, stop.get_token());
  REQUIRE(result.interrupted);
  CHECK(result.contention.unchecked > 0);
  CHECK(result.contention.contended == 0);
  CHECK(contended_trials(stored) == result.contention.unchecked);
  CHECK(result.trials.back().result.contended);
  REQUIRE(result.best);
  CHECK_FALSE(result.best->result.contended);

  Search after;
  after.device.canary_answer = quiet;
  const TuneResult sound = after.run(&stored.cache, stored.workload);
  CHECK(sound.counts.resumed == 20 - result.contention.unchecked);
  CHECK(contended_trials(stored) == 0);
}

TEST_CASE("a disturbed duel is repeated, and one that cannot be quiet leaves a contended winner") {
  for (const bool ends : {true, false}) {
    CAPTURE(ends);
    Search search;
    search.request.quiet_wait_s = ends ? 60 : 0;
    int duels = 0, disturbed = 0;
    search.device.duel_answer = [&](const Config& config) {
      duels += config.number("x") == 3 && config.number("y") == 5;
      return timed(landscape(config));
    };
    search.request.budget = 64;
    search.device.canary_answer = [&] {
      const bool loaded = duels > 0 && (!ends || disturbed < 2);
      disturbed += loaded;
      return loaded ? sliced() : quiet();
    };
    const TuneResult result = search.run();
    REQUIRE(result.best);
    CHECK(duels == (ends ? 2 : 1));
    CHECK(result.best->result.contended == !ends);
  }
}

TEST_CASE("contended trials are no history for other searches") {
  TemporaryCache stored;
  const WorkloadKey here{.kernel = "k", .problem = "n=1"}, there{.kernel = "k", .problem = "n=2"};
  const std::int64_t other = stored.cache.workloads.id(there);
  Search search;
  const auto put = [&](const Config& config, bool contended) {
    TrialResult result = timed(10);
    result.contended = contended;
    stored.cache.trials.put(other, to_record(config, result, nullptr, {}));
  };
  put(search.space.config(0), true);
  put(search.space.config(1), true);
  CHECK(histories_for(stored.cache, here, search.space).empty());
  put(search.space.config(1), false);
  const std::vector<History> histories = histories_for(stored.cache, here, search.space);
  REQUIRE(histories.size() == 1);
  CHECK(histories[0].trials.size() == 1);
}

TEST_CASE("a recording has no canary, and nothing waits for it") {
  Search search;
  const TuneResult result = search.run();
  CHECK(result.contention.canaries == 0);
  CHECK(result.contention.contended == 0);
}
