// A whole search over the real worker process and the stand-in for libcuda: every way a candidate can end.
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/tuner/doubling_kernel.h"
#include "tuner/tune.h"

namespace moetune {
namespace {

using Clock = std::chrono::steady_clock;

// The sentences of one kind, as a search says them.
struct Said {
  std::vector<std::string> sentences;
  Events events{.listener = [this](const Event& event) {
    if (const auto* warning = std::get_if<Warning>(&event.what)) sentences.push_back(warning->text);
  }};
  bool has(const std::string& words) const {
    return std::any_of(sentences.begin(), sentences.end(),
                       [&](const std::string& one) { return one.find(words) != std::string::npos; });
  }
};

// A search of two candidates that has a few seconds.
struct ShortSearch {
  ShortSearch() {
    kernel.entries = {"double__us40", "double__us20"};
    request.kernel = &kernel;
    request.problem = doubling_problem(1000);
    request.space = &space;
    request.strategy = "random";
    request.time_budget_s = 2;
    request.ready_first = true;
  }
  DoublingKernel kernel;
  LegalSpace space{{{"entry", {Value::integer(0), Value::integer(1)}, ""}}, {0, 1}};
  TuneRequest request;
};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

Build built(const CompileUnit& unit) {
  Build build;
  build.outcome = Outcome::ok;
  build.cubin = {'f', 'a', 'k', 'e', 0};
  build.entries[unit.defines.front().second] = {};
  return build;
}

std::string name_of(const CompileUnit& unit) { return unit.defines.front().second; }

}  // namespace

TEST_CASE("a worker that has stopped answering ends a search at its time, which says so after ten seconds") {
  use_fake_cuda();
  Said said;
  CudaDevice device({.waits = {.slow = [&](const std::string& text) { said.sentences.push_back(text); }},
                     .build = [](const std::vector<CompileUnit>& units) {
                       return std::vector<BuildPtr>(units.size(), doubling_candidate("double", 1000).build);
                     }});
  CompilePool compiler({name_of, [](const CompileUnit& unit, const std::stop_token&) { return built(unit); }}, 1);
  ShortSearch search;
  REQUIRE(::kill(device.worker_pid(), SIGSTOP) == 0);
  const Clock::time_point begin = Clock::now();
  const TuneResult result = tune(search.request, {.device = device, .compiler = &compiler, .events = said.events}, {});
  CHECK(seconds_since(begin) > 2);
  CHECK(seconds_since(begin) < 60);  // it was 180
  CHECK(result.out_of_time);
  CHECK_FALSE(result.interrupted);
  CHECK_FALSE(result.best);
  CHECK(said.has("The GPU worker has not answered for 10 s (preparing the inputs of doubling)"));
  CHECK(said.has("what prepares them was stopped"));
  search.request.time_budget_s = 0;  // the device works again, and its stop is the caller's
  CHECK(tune(search.request, {.device = device, .compiler = &compiler}, {}).best);
}

TEST_CASE("a compiler that has stopped answering ends a search at its time, which says so after ten seconds") {
  use_fake_cuda();
  CudaDevice device = fake_device();
  const auto hang = [](const CompileUnit& unit, const std::stop_token& stop) {
    while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return built(unit);
  };
  CompilePool compiler({name_of, hang}, 2);
  Said said;
  ShortSearch search;
  for (const bool ready_first : {true, false}) {
    said.sentences.clear();
    search.request.ready_first = ready_first;
    const Clock::time_point begin = Clock::now();
    const TuneResult result =
        tune(search.request, {.device = device, .compiler = &compiler, .events = said.events}, {});
    CHECK(seconds_since(begin) < 45);  // it was 61
    CHECK(result.out_of_time);
    CHECK_FALSE(result.best);
    CHECK(said.has("The compiler has not answered for 10 s"));
  }
}

TEST_CASE("a search in which candidates hang, crash, fail, are wrong and lack memory finds the best") {
  use_fake_cuda();
  CudaDevice device = fake_device();
  DoublingKernel kernel;
  kernel.entries = {"double__us40",  "double__hang",    "double__segv",  "double__us20",
                    "double__wrong", "double__oom",     "double__abort", "double__sticky719",
                    "double__us25",  "double__refuse1", "double__us500", "broken"};
  const LegalSpace space = space_of_entries(kernel);
  CompilePool compiler(doubling_compiler(), 1);
  TuneRequest request;
  request.kernel = &kernel;
  request.problem = doubling_problem(1000);
  request.space = &space;
  request.strategy = "random";
  request.default_config = space.config(0);
  request.policy.time_limit_s = 0.2;
  request.duel_rounds = 5;
  const TuneResult result = tune(request, {.device = device, .compiler = &compiler}, {});
  CHECK(result.exhausted);
  CHECK(result.counts.total() == kernel.entries.size());
  CHECK(result.counts[Outcome::ok] == 3);
  CHECK(result.counts[Outcome::timed_out] == 1);
  CHECK(result.counts[Outcome::crashed] == 2);
  CHECK(result.counts[Outcome::wrong_result] == 1);
  CHECK(result.counts[Outcome::launch_failed] == 2);
  CHECK(result.counts[Outcome::out_of_memory] == 1);
  CHECK(result.counts[Outcome::too_slow] == 1);
  CHECK(result.counts[Outcome::compile_failed] == 1);
  REQUIRE(result.best);
  CHECK(result.best->config.number("entry") == 3);
  CHECK(result.best->result.measurement.median_us == doctest::Approx(20));
  REQUIRE(result.baseline);
  CHECK(result.baseline->result.measurement.median_us == doctest::Approx(40));

  // The one that hung was waited for until its limit, and that is where its time went.
  const TimeSpent& time = result.time;
  CHECK(time.measuring > request.policy.time_limit_s);
  CHECK(time.other() < time.wall / 2);
  CHECK(time.preparing + time.waiting + time.validating + time.measuring + time.disturbed + time.finishing +
            time.other() ==
        doctest::Approx(time.wall));
}

}  // namespace moetune
