#include "tuner/tune.h"

#include <doctest/doctest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "tests/tuner/doubling_kernel.h"
#include "tests/tuner/scripted_device.h"

using namespace moetune;

namespace {

// 8 x 8 points, x * y landscape with its optimum at (3, 5).
LegalSpace grid() {
  std::vector<Parameter> parameters = {{"x", {}, ""}, {"y", {}, ""}};
  for (int v = 0; v < 8; ++v) {
    parameters[0].values.push_back(Value::integer(v));
    parameters[1].values.push_back(Value::integer(v));
  }
  std::vector<Position> rows;
  for (Position x = 0; x < 8; ++x) {
    for (Position y = 0; y < 8; ++y) rows.insert(rows.end(), {x, y});
  }
  return LegalSpace(parameters, rows);
}

double landscape(const Config& config) {
  const double dx = static_cast<double>(config.number("x")) - 3,
               dy = static_cast<double>(config.number("y")) - 5;
  return 100 + 10 * (dx * dx + dy * dy);
}

struct Search {
  LegalSpace space = grid();
  ScriptedDevice device;
  TuneRequest request;

  Search() {
    device.answer = [](const Config& config) { return timed(landscape(config)); };
    request.space = &space;
    request.strategy = "random";
    request.budget = 40;
    request.in_flight = 4;
  }
  TuneResult run(Cache* cache = nullptr, std::int64_t workload = 0, std::stop_token stop = {}) {
    return tune(request, {.device = device, .cache = cache, .workload = workload}, stop);
  }
};

struct TemporaryCache {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("moetune_tune_test_" + std::to_string(::getpid()) + ".db");
  TemporaryCache() { remove(); }
  ~TemporaryCache() { remove(); }
  void remove() const {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path.string() + suffix);
  }
};

}  // namespace

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
  search.device.answer = [](const Config&) {
    return TrialResult{.outcome = Outcome::launch_failed, .message = "no"};
  };
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

TEST_CASE("a winner that is wrong on fresh inputs gives way to the next") {
  Search search;
  search.request.budget = 64;
  search.device.wrong_on_fresh_inputs = {"x=3,y=5"};
  const TuneResult result = search.run();
  REQUIRE(result.best);
  CHECK(result.best->config.text() == "x=2,y=5");  // the lowest ConfigId of the four equals
}

TEST_CASE("trials in the cache are told, not run again") {
  TemporaryCache file;
  Cache cache = Cache::open(file.path, Cache::Mode::create);
  const std::int64_t workload = cache.workload({.kernel = "k", .problem = "p"});

  Search half;
  half.request.budget = 20;
  half.run(&cache, workload);
  CHECK(cache.trials(workload).size() == 20);

  Search whole, untouched;
  const TuneResult resumed = whole.run(&cache, workload);
  untouched.run();
  CHECK(resumed.counts.resumed == 20);
  CHECK(resumed.counts.total() == 40);
  CHECK(whole.device.ran.size() == 20);
  CHECK(std::equal(whole.device.ran.begin(), whole.device.ran.end(), untouched.device.ran.begin() + 20));
}

TEST_CASE("--fresh forgets the trials of the workload and of no other") {
  TemporaryCache file;
  Cache cache = Cache::open(file.path, Cache::Mode::create);
  const std::int64_t workload = cache.workload({.kernel = "k", .problem = "p"});
  const std::int64_t other = cache.workload({.kernel = "k", .problem = "q"});
  Search search;
  search.run(&cache, workload);
  search.run(&cache, other);
  search.request.fresh = true;
  search.request.budget = 10;
  CHECK(search.run(&cache, workload).counts.resumed == 0);
  CHECK(cache.trials(workload).size() == 10);
  CHECK(cache.trials(other).size() == 40);
}

TEST_CASE("a stop request ends the search after the current trial and keeps what was found") {
  TemporaryCache file;
  Cache cache = Cache::open(file.path, Cache::Mode::create);
  const std::int64_t workload = cache.workload({.kernel = "k", .problem = "p"});
  std::stop_source stop;
  Search search;
  search.device.answer = [&](const Config& config) {
    if (search.device.ran.size() == 7) stop.request_stop();
    return timed(landscape(config));
  };
  const TuneResult result = search.run(&cache, workload, stop.get_token());
  CHECK(result.interrupted);
  CHECK(result.counts.total() == 7);
  CHECK(cache.trials(workload).size() == 7);
  CHECK(result.best);
}

TEST_CASE(
    "a search that may end where little is to be gained ends before its budget, and says how sure it is") {
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

TEST_CASE("a resumed search runs again what hung or crashed, and not what is wrong") {
  TemporaryCache file;
  Cache cache = Cache::open(file.path, Cache::Mode::create);
  const std::int64_t workload = cache.workload({.kernel = "k", .problem = "p"});
  Search first, second;
  first.request.budget = second.request.budget = 64;
  first.device.answer = [](const Config& config) {
    if (config.number("x") == 3) return TrialResult{.outcome = Outcome::timed_out, .message = "late"};
    if (config.number("x") == 4) return TrialResult{.outcome = Outcome::wrong_result, .message = "off"};
    return timed(landscape(config));
  };
  CHECK(first.run(&cache, workload).best->config.text() == "x=2,y=5");
  const TuneResult result = second.run(&cache, workload);
  CHECK(result.counts[Outcome::timed_out] == 0);
  CHECK(result.counts[Outcome::wrong_result] == 8);
  CHECK(result.best->config.text() == "x=3,y=5");
}

TEST_CASE("what hung twice is its own fault: it trips no alarm, and is not tried a third time") {
  TemporaryCache file;
  Cache cache = Cache::open(file.path, Cache::Mode::create);
  const std::int64_t workload = cache.workload({.kernel = "k", .problem = "p"});
  const auto search = [&] {
    Search next;
    next.request.budget = 64;
    next.request.strategy = "exhaustive";
    next.device.answer = [](const Config& config) {  // never eight in a row, unless nothing else is left
      if (config.number("y") % 2 == 0) return TrialResult{.outcome = Outcome::timed_out, .message = "late"};
      return timed(landscape(config));
    };
    next.run(&cache, workload);
    return next.device.ran.size();
  };
  CHECK(search() == 64);
  CHECK(search() == 32);
  CHECK(search() == 0);
}

TEST_CASE("what hung twice gets another try where the machine turned out to be broken") {
  TemporaryCache file;
  Cache cache = Cache::open(file.path, Cache::Mode::create);
  const std::int64_t workload = cache.workload({.kernel = "k", .problem = "p"});
  for (int time = 0; time < 2; ++time) {
    Search search;
    search.request.budget = 64;
    search.request.strategy = "exhaustive";
    search.device.answer = [](const Config&) {
      return TrialResult{.outcome = Outcome::crashed, .message = "signal 7"};
    };
    CHECK_THROWS_AS(search.run(&cache, workload), BrokenEnvironment);
    CHECK(cache.trials(workload).size() == static_cast<std::size_t>(8 * (time + 1)));
  }
  Search repaired;
  repaired.request.budget = 64;
  const TuneResult result = repaired.run(&cache, workload);
  CHECK(result.counts[Outcome::ok] + result.counts[Outcome::too_slow] == 64);
  CHECK(result.counts.resumed == 0);
}

TEST_CASE("what a strict search dropped as too slow is measured by one that would not drop it") {
  TemporaryCache file;
  Cache cache = Cache::open(file.path, Cache::Mode::create);
  const std::int64_t workload = cache.workload({.kernel = "k", .problem = "p"});
  Search strict, same, lenient;
  for (Search* search : {&strict, &same, &lenient}) search->request.budget = 64;
  lenient.request.drop_factor = 100;
  const TuneResult first = strict.run(&cache, workload);
  REQUIRE(first.counts[Outcome::too_slow] > 0);
  CHECK(same.run(&cache, workload).counts.resumed == 64);
  const TuneResult third = lenient.run(&cache, workload);
  CHECK(third.counts[Outcome::too_slow] == 0);
  CHECK(lenient.device.ran.size() == first.counts[Outcome::too_slow]);
}

TEST_CASE("a damaged stored winner counts as absent, and the search replaces it") {
  TemporaryCache file;
  Cache cache = Cache::open(file.path, Cache::Mode::create);
  const std::int64_t workload = cache.workload({.kernel = "k", .problem = "p"});
  cache.put_winner(workload, {.config = "x=0,y=0", .time_us = 1, .plan = "{}", .cubin = {1, 2, 3}});
  {
    sqlite3* raw = nullptr;
    REQUIRE(sqlite3_open(file.path.c_str(), &raw) == SQLITE_OK);
    CHECK(sqlite3_exec(raw, "UPDATE winners SET plan = plan || ' '", nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(raw);
  }
  REQUIRE_THROWS_AS(cache.winner(workload), BrokenEnvironment);
  DoublingKernel kernel;
  Search search;
  search.request.kernel = &kernel;
  search.request.problem = doubling_problem(10);
  CompilePool compiler({[](const CompileUnit& unit) { return unit.source; },
                        [](const CompileUnit&) {
                          Build build;
                          build.outcome = Outcome::ok;
                          build.cubin = {1};
                          build.entries["double"] = {};
                          return build;
                        }},
                       1);
  const TuneResult result =
      tune(search.request,
           {.device = search.device, .cache = &cache, .workload = workload, .compiler = &compiler}, {});
  REQUIRE(result.best);
  REQUIRE(cache.winner(workload));
  CHECK(cache.winner(workload)->config == result.best->config.text());
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

TEST_CASE("a machine on which everything hangs ends the search after eight trials, all of them kept") {
  TemporaryCache file;
  Cache cache = Cache::open(file.path, Cache::Mode::create);
  const std::int64_t workload = cache.workload({.kernel = "k", .problem = "p"});
  Search search;
  search.device.answer = [](const Config&) {
    return TrialResult{.outcome = Outcome::timed_out, .message = "ran past its limit"};
  };
  CHECK_THROWS_WITH_AS(search.run(&cache, workload), doctest::Contains("ran past its limit"),
                       BrokenEnvironment);
  CHECK(search.device.ran.size() == 8);
  CHECK(cache.trials(workload).size() == 8);
}
