// The tune loop with a compiler: what is compiled, ahead or because it was asked, what is measured, and what
// is counted.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>

#include "tests/tuner/doubling_kernel.h"
#include "tests/tuner/scripted_device.h"
#include "tests/tuner/temporary_cache.h"
#include "tuner/compile/ptxas_log.h"
#include "tuner/tune.h"

using namespace moetune;

namespace {

// Registers follow from the product of the parameters.
int registers_of(const std::string& text) {
  int x = 0, y = 0;
  std::sscanf(text.c_str(), "x=%d,y=%d", &x, &y);
  return 32 + std::min(200, std::abs(x * y - 150));
}

struct Wide {
  LegalSpace space;
  ScriptedDevice device;
  UnitPerConfigKernel kernel;
  TuneRequest request;
  std::atomic<int> compiled{0};

  static LegalSpace grid() {
    std::vector<Parameter> parameters;
    std::vector<Position> rows;
    for (const char* name : {"x", "y"}) {
      Parameter& parameter = parameters.emplace_back(Parameter{name, {}, ""});
      for (int v = 1; v <= 24; ++v) parameter.values.push_back(Value::integer(v));
    }
    for (Position x = 0; x < 24; ++x) {
      for (Position y = 0; y < 24; ++y) rows.insert(rows.end(), {x, y});
    }
    return LegalSpace(parameters, rows);
  }

  Wide() : space(grid()) {
    device.limits() = limits_of_architecture("sm_90a");
    device.answer = [](const Config& config) { return timed(10 + 0.1 * registers_of(config.text())); };
    request.kernel = &kernel;
    request.problem = doubling_problem(1024);
    request.space = &space;
    request.strategy = "auto";
    request.budget = 60;
    request.drop_factor = 100;
  }

  std::function<void(const std::string&)> while_compiling = [](const std::string&) {};
  std::function<std::string(const std::string&)> log_of;  // what ptxas says; empty: registers_of

  TuneResult run(unsigned threads, std::stop_token stop = {}, Cache* cache = nullptr, std::int64_t workload = 0) {
    CompilePool pool({.digest = [](const CompileUnit& unit) { return unit.defines[0].second; },
                      .build =
                          [this](const CompileUnit& unit, const std::stop_token&) {
                            ++compiled;
                            while_compiling(unit.defines[0].second);
                            Build build;
                            build.outcome = Outcome::ok;
                            build.digest = unit.defines[0].second;
                            build.entries["double"] = {.registers = registers_of(build.digest)};
                            if (log_of) build.entries = parse_ptxas_log(log_of(build.digest));
                            return build;
                          }},
                     threads);
    return tune(request, {.device = device, .cache = cache, .workload = workload, .compiler = &pool}, stop);
  }
};

}  // namespace

TEST_CASE("auto compiles more than it measures; what it passes over costs no trial and is counted") {
  Wide wide;
  const TuneResult result = wide.run(8);
  CHECK(result.counts.total() == 60);
  CHECK(wide.device.ran.size() == 60);
  CHECK(result.counts.unmeasured > 5);
  CHECK(static_cast<std::size_t>(wide.compiled) >= 60 + result.counts.unmeasured / 2);
}

// A log as ptxas 13.0 writes it.
TEST_CASE("a configuration whose wgmma ptxas serialized is pruned and never measured, however fast it would be") {
  Wide wide;
  const auto is_serialized = [](const std::string& text) { return text.find("x=1") == 0; };  // of 24: 1, 10 to 19
  wide.log_of = [&](const std::string& text) {
    std::string log;
    if (is_serialized(text)) {
      log =
          "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
          "insufficient register resources for the wgmma pipeline in the function 'double'\n";
    }
    return log +
           "ptxas info    : Compiling entry function 'double' for 'sm_90a'\n"
           "ptxas info    : Function properties for double\n"
           "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
           "ptxas info    : Used 168 registers, used 0 barriers\n";
  };
  wide.device.answer = [&](const Config& config) { return timed(is_serialized(config.text()) ? 1 : 100); };
  wide.request.strategy = "random";
  const TuneResult result = wide.run(2);
  CHECK(std::none_of(wide.device.ran.begin(), wide.device.ran.end(), is_serialized));
  REQUIRE(result.best);
  CHECK_FALSE(is_serialized(result.best->config.text()));
  CHECK(result.counts[Outcome::pruned] >= 5);
  CHECK(result.counts.total() == 60);
  for (const Trial& trial : result.trials) {
    if (!is_serialized(trial.config.text())) continue;
    CHECK(trial.result.outcome == Outcome::pruned);
    CHECK(trial.result.message ==
          "double: ptxas serialized wgmma due to insufficient register resources for the wgmma pipeline");
  }
}

TEST_CASE("nothing is compiled ahead of a search that compiles nothing") {
  Wide blind;
  blind.request.kernel = nullptr;
  const TuneResult result = blind.run(8);
  CHECK(result.counts.unmeasured == 0);
  CHECK(blind.compiled == 0);
  CHECK(result.counts.total() == 60);
}

TEST_CASE("a trajectory depends on the seed, and not on how many threads compile") {
  Wide one, many, other;
  other.request.seed = 2;
  one.run(1);
  many.run(8);
  other.run(8);
  CHECK(one.device.ran == many.device.ran);
  CHECK(many.compiled > one.compiled);  // idle threads compile what may be asked next
  CHECK(one.device.ran != other.device.ran);
}

TEST_CASE("a slow compilation holds up nothing else where what is compiled first is measured first") {
  Wide plain;
  plain.request.strategy = "random";
  plain.request.budget = 12;
  plain.request.in_flight = 4;
  plain.run(4);
  Wide wide;
  wide.request = plain.request;
  wide.request.kernel = &wide.kernel;
  wide.request.space = &wide.space;
  wide.request.ready_first = true;
  const std::string slow = plain.device.ran.front();  // random asks the same whatever it is told
  std::promise<void> others_are_done;
  std::atomic<std::size_t> told = 0;
  wide.while_compiling = [&](const std::string& config) {
    if (config == slow) others_are_done.get_future().wait_for(std::chrono::seconds(20));
  };
  wide.device.answer = [&](const Config&) {
    if (++told == 11) others_are_done.set_value();
    return timed(10);
  };
  const TuneResult result = wide.run(4);
  CHECK(result.counts.total() == 12);
  CHECK(wide.device.ran.back() == slow);
}

TEST_CASE("strategies that likely_next nothing compile what they measure and no more") {
  Wide wide;
  wide.request.strategy = "random";
  const TuneResult result = wide.run(8);
  CHECK(result.counts.unmeasured == 0);
  CHECK(wide.compiled == 60);
}

TEST_CASE("a search that resumes goes the way it would have gone") {
  Wide whole, first, second;
  whole.run(2);
  TemporaryCache stored;
  std::stop_source stop;
  first.device.answer = [&](const Config& config) {
    if (first.device.ran.size() == 40) stop.request_stop();
    return timed(10 + 0.1 * registers_of(config.text()));
  };
  first.run(2, stop.get_token(), &stored.cache, stored.workload);
  const TuneResult resumed = second.run(2, {}, &stored.cache, stored.workload);
  CHECK(resumed.counts.resumed == 40);
  first.device.ran.insert(first.device.ran.end(), second.device.ran.begin(), second.device.ran.end());
  CHECK(first.device.ran == whole.device.ran);
}
