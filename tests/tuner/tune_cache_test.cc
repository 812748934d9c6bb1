// What the tune loop stores in a cache, and resumes from one.
#include <doctest/doctest.h>
#include <sqlite3.h>

#include "base/error.h"
#include "tests/tuner/doubling_kernel.h"
#include "tests/tuner/grid_search.h"
#include "tests/tuner/temporary_cache.h"
#include "tuner/tune.h"

using namespace moetune;

TEST_CASE("a GPU's search resumes with all its trials, whatever order it would ask in now") {
  for (const char* strategy : {"auto", "model", "local", "random"}) {
    CAPTURE(strategy);
    TemporaryCache stored;
    Search stopped;
    stopped.request.strategy = strategy;
    stopped.request.in_flight = 1;  // another order of telling than the one below
    stopped.request.budget = 30;
    stopped.run(&stored.cache, stored.workload);

    Search resumed;
    resumed.request.strategy = strategy;
    resumed.request.in_flight = 8;
    resumed.request.ready_first = true;
    const TuneResult result = resumed.run(&stored.cache, stored.workload);
    CHECK(result.counts.resumed == 30);
    CHECK(result.counts.total() == 40);
    CHECK(resumed.device.ran.size() == 10);
    REQUIRE(result.trials.size() == 40);
    for (std::size_t i = 0; i < 30; ++i) CHECK(result.trials[i].config.text() == stopped.device.ran[i]);

    Search smaller = {};
    smaller.request.strategy = strategy;
    smaller.request.ready_first = true;
    smaller.request.budget = 12;
    CHECK(smaller.run(&stored.cache, stored.workload).counts.resumed == 12);
    CHECK(smaller.device.ran.empty());

    Search other;
    other.request.strategy = strategy;
    other.request.ready_first = true;
    other.request.seed = 2;
    CHECK(other.run(&stored.cache, stored.workload).counts.resumed < 40);
    CHECK_FALSE(other.device.ran.empty());
  }
}

TEST_CASE("pruned trials take no other's place where a search resumes") {
  TemporaryCache stored;
  Search stopped;
  stopped.request.strategy = "local";
  stopped.request.budget = 20;
  stopped.device.answer = [](const Config& config) {
    return config.number("x") % 3 == 0 ? TrialResult{.outcome = Outcome::pruned, .message = "no room"}
                                       : timed(landscape(config));
  };
  const TuneResult first = stopped.run(&stored.cache, stored.workload);
  REQUIRE(first.counts[Outcome::pruned] > 3);

  Search resumed;
  resumed.request = stopped.request;
  resumed.request.space = &resumed.space;
  resumed.request.ready_first = true;
  resumed.device.answer = stopped.device.answer;
  const TuneResult result = resumed.run(&stored.cache, stored.workload);
  CHECK(result.counts.total() == 20);
  CHECK(resumed.device.ran.empty());
  CHECK(result.counts.resumed >= 20);
  REQUIRE(first.best);
  REQUIRE(result.best);
  CHECK(result.best->config.text() == first.best->config.text());
}

TEST_CASE("a stop request while a search resumes asks for nothing more") {
  TemporaryCache stored;
  Search stopped;
  stopped.request.budget = 20;
  stopped.run(&stored.cache, stored.workload);
  std::stop_source stop;
  std::size_t seen = 0;
  const Events stops_at_five{.listener = [&](const Event& event) {
    if (std::holds_alternative<TrialEnded>(event.what) && ++seen == 5) stop.request_stop();
  }};
  Search resumed;
  resumed.request.ready_first = true;
  const TuneResult result =
      tune(resumed.request,
           {.device = resumed.device, .cache = &stored.cache, .workload = stored.workload, .events = stops_at_five},
           stop.get_token());
  CHECK(result.interrupted);
  CHECK(result.counts.total() == 5);
  CHECK(resumed.device.ran.empty());
}

TEST_CASE("trials in the cache are told, not run again") {
  TemporaryCache stored;

  Search half;
  half.request.budget = 20;
  half.run(&stored.cache, stored.workload);
  CHECK(stored.cache.trials.of(stored.workload).size() == 20);

  Search whole, untouched;
  const TuneResult resumed = whole.run(&stored.cache, stored.workload);
  untouched.run();
  CHECK(resumed.counts.resumed == 20);
  CHECK(resumed.counts.total() == 40);
  CHECK(whole.device.ran.size() == 20);
  CHECK(std::equal(whole.device.ran.begin(), whole.device.ran.end(), untouched.device.ran.begin() + 20));
}

TEST_CASE("--fresh forgets the trials of the workload and of no other") {
  TemporaryCache stored;
  const std::int64_t other = stored.cache.workloads.id({.kernel = "k", .problem = "q"});
  Search search;
  search.run(&stored.cache, stored.workload);
  search.run(&stored.cache, other);
  search.request.fresh = true;
  search.request.budget = 10;
  CHECK(search.run(&stored.cache, stored.workload).counts.resumed == 0);
  CHECK(stored.cache.trials.of(stored.workload).size() == 10);
  CHECK(stored.cache.trials.of(other).size() == 40);
}

TEST_CASE("a stop request ends the search after the current trial and keeps what was found") {
  TemporaryCache stored;
  std::stop_source stop;
  Search search;
  search.device.answer = [&](const Config& config) {
    if (search.device.ran.size() == 7) stop.request_stop();
    return timed(landscape(config));
  };
  const TuneResult result = search.run(&stored.cache, stored.workload, stop.get_token());
  CHECK(result.interrupted);
  CHECK(result.counts.total() == 7);
  CHECK(stored.cache.trials.of(stored.workload).size() == 7);
  CHECK(result.best);
}

TEST_CASE("a resumed search runs again what hung or crashed, and not what is wrong") {
  TemporaryCache stored;
  Search first, second;
  first.request.budget = second.request.budget = 64;
  first.device.answer = [](const Config& config) {
    if (config.number("x") == 3) return TrialResult{.outcome = Outcome::timed_out, .message = "late"};
    if (config.number("x") == 4) return TrialResult{.outcome = Outcome::wrong_result, .message = "off"};
    return timed(landscape(config));
  };
  CHECK(first.run(&stored.cache, stored.workload).best->config.text() == "x=2,y=5");
  const TuneResult result = second.run(&stored.cache, stored.workload);
  CHECK(result.counts[Outcome::timed_out] == 0);
  CHECK(result.counts[Outcome::wrong_result] == 8);
  CHECK(result.best->config.text() == "x=3,y=5");
}

TEST_CASE("what hung twice is its own fault: it trips no alarm, and is not tried a third time") {
  TemporaryCache stored;
  const auto search = [&] {
    Search next;
    next.request.budget = 64;
    next.request.strategy = "exhaustive";
    next.device.answer = [](const Config& config) {  // never eight in a row, unless nothing else is left
      if (config.number("y") % 2 == 0) return TrialResult{.outcome = Outcome::timed_out, .message = "late"};
      return timed(landscape(config));
    };
    next.run(&stored.cache, stored.workload);
    return next.device.ran.size();
  };
  CHECK(search() == 64);
  CHECK(search() == 32);
  CHECK(search() == 0);
}

TEST_CASE("what hung twice gets another try where the machine turned out to be broken") {
  TemporaryCache stored;
  for (int time = 0; time < 2; ++time) {
    Search search;
    search.request.budget = 64;
    search.request.strategy = "exhaustive";
    search.device.answer = [](const Config&) {
      return TrialResult{.outcome = Outcome::crashed, .message = "signal 7"};
    };
    CHECK_THROWS_AS(search.run(&stored.cache, stored.workload), BrokenEnvironment);
    CHECK(stored.cache.trials.of(stored.workload).size() == static_cast<std::size_t>(8 * (time + 1)));
  }
  Search repaired;
  repaired.request.budget = 64;
  const TuneResult result = repaired.run(&stored.cache, stored.workload);
  CHECK(result.counts[Outcome::ok] + result.counts[Outcome::too_slow] == 64);
  CHECK(result.counts.resumed == 0);
}

TEST_CASE("what a strict search dropped as too slow is measured by one that would not drop it") {
  TemporaryCache stored;
  Search strict, same, lenient;
  for (Search* search : {&strict, &same, &lenient}) search->request.budget = 64;
  lenient.request.drop_factor = 100;
  const TuneResult first = strict.run(&stored.cache, stored.workload);
  REQUIRE(first.counts[Outcome::too_slow] > 0);
  CHECK(same.run(&stored.cache, stored.workload).counts.resumed == 64);
  const TuneResult third = lenient.run(&stored.cache, stored.workload);
  CHECK(third.counts[Outcome::too_slow] == 0);
  CHECK(lenient.device.ran.size() == first.counts[Outcome::too_slow]);
}

TEST_CASE("a damaged stored winner counts as absent, and the search replaces it") {
  TemporaryCache stored;
  WinnerRecord winner;
  winner.config = "x=0,y=0";
  winner.time_us = 1;
  winner.plan = "{}";
  winner.cubin = {1, 2, 3};
  stored.cache.winners.put(stored.workload, winner);
  {
    sqlite3* raw = nullptr;
    REQUIRE(sqlite3_open(stored.file.path.c_str(), &raw) == SQLITE_OK);
    CHECK(sqlite3_exec(raw, "UPDATE winners SET plan = plan || ' '", nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(raw);
  }
  REQUIRE_THROWS_AS(stored.cache.winners.find(stored.workload), BrokenEnvironment);
  DoublingKernel kernel;
  Search search;
  search.request.kernel = &kernel;
  search.request.problem = doubling_problem(10);
  CompilePool compiler(doubling_compiler(), 1);
  std::vector<Phase> phases;
  const auto listener = [&](const Event& event) {
    if (const auto* change = std::get_if<PhaseChanged>(&event.what)) phases.push_back(change->phase);
  };
  const TuneResult result = tune(search.request,
                                 {.device = search.device,
                                  .cache = &stored.cache,
                                  .workload = stored.workload,
                                  .compiler = &compiler,
                                  .events = {.listener = listener}},
                                 {});
  REQUIRE(result.best);
  CHECK(phases.back() == Phase::storing);
  REQUIRE(stored.cache.winners.find(stored.workload));
  CHECK(stored.cache.winners.find(stored.workload)->config == result.best->config.text());
}

TEST_CASE("a machine on which everything hangs ends the search after eight trials, all of them kept") {
  TemporaryCache stored;
  Search search;
  search.device.answer = [](const Config&) {
    return TrialResult{.outcome = Outcome::timed_out, .message = "ran past its limit"};
  };
  CHECK_THROWS_WITH_AS(search.run(&stored.cache, stored.workload), doctest::Contains("ran past its limit"),
                       BrokenEnvironment);
  CHECK(search.device.ran.size() == 8);
  CHECK(stored.cache.trials.of(stored.workload).size() == 8);
}
