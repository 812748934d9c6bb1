#include "tuner/compile_ahead.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <future>
#include <mutex>

#include "tests/tuner/doubling_kernel.h"
#include "tests/tuner/scripted_device.h"

using namespace moetune;

namespace {

class Foresees : public Searcher {
 public:
  std::vector<ConfigId> likeliest;
  std::vector<ConfigId> ask(std::size_t) override { return {}; }
  void tell(const Observation&) override {}
  std::vector<ConfigId> likely_next(std::size_t n) const override {
    return {likeliest.begin(), likeliest.begin() + static_cast<std::ptrdiff_t>(std::min(n, likeliest.size()))};
  }
};

LegalSpace ten_points() {
  Parameter x{"x", {}, ""};
  std::vector<Position> rows;
  for (Position value = 0; value < 10; ++value) {
    x.values.push_back(Value::integer(value));
    rows.push_back(value);
  }
  return LegalSpace({x}, rows);
}

struct Bench {
  UnitPerConfigKernel kernel;
  LegalSpace space = ten_points();
  ScriptedDevice device;
  TuneRequest request;
  Foresees searcher;
  std::promise<void> compiled;
  std::mutex mutex;
  std::vector<std::string> begun;  // under `mutex`
  CompilePool pool;

  explicit Bench(unsigned threads)
      : pool({.digest = [](const CompileUnit& unit) { return unit.defines[0].second; },
              .build =
                  [this, may_end = compiled.get_future().share()](const CompileUnit& unit, const std::stop_token&) {
                    {
                      const std::scoped_lock lock(mutex);
                      begun.push_back(unit.defines[0].second);
                    }
                    may_end.wait();
                    return Build();
                  }},
             threads) {
    device.limits() = limits_of_architecture("sm_90a");
    request.kernel = &kernel;
    request.problem = doubling_problem(1024);
    request.space = &space;
    searcher.likeliest = {5, 3, 9, 1, 0, 2};
  }
  ~Bench() { compiled.set_value(); }
  TuneTools tools() { return {.device = device, .compiler = &pool}; }
};

}  // namespace

TEST_CASE("idle threads but two compile the likeliest, each once, and wait for nothing") {
  Bench bench(5);
  const TuneTools tools = bench.tools();
  CompileAhead ahead(bench.request, tools);
  ahead.run(bench.searcher);
  CHECK(bench.pool.stats().submitted == 3);
  CHECK(ahead.unmeasured() == 3);
  ahead.run(bench.searcher);  // two are idle, and they are kept
  CHECK(bench.pool.stats().submitted == 3);
}

TEST_CASE("what was asked is not compiled ahead, and what is asked later is no longer counted") {
  Bench bench(4);
  const TuneTools tools = bench.tools();
  CompileAhead ahead(bench.request, tools);
  ahead.asked(5);
  ahead.run(bench.searcher);
  CHECK(ahead.unmeasured() == 2);
  ahead.asked(3);
  CHECK(ahead.unmeasured() == 1);
  ahead.asked(3);
  ahead.asked(5);
  CHECK(ahead.unmeasured() == 1);
  const CompileUnit of_nine =
      bench.kernel.plan(bench.space.config(9), bench.request.problem, bench.device.limits()).unit;
  bench.pool.submit(of_nine);
  CHECK(bench.pool.stats().joined == 1);  // it was compiled ahead
}

TEST_CASE("without idle threads, a compiler or a kernel nothing is compiled ahead") {
  Bench few(2), blind(8), foreign(8);
  const TuneTools few_tools = few.tools();
  CompileAhead with_two(few.request, few_tools);
  with_two.run(few.searcher);
  CHECK(few.pool.stats().submitted == 0);
  TuneTools no_compiler = blind.tools();
  no_compiler.compiler = nullptr;
  CompileAhead without(blind.request, no_compiler);
  without.run(blind.searcher);
  CHECK(without.unmeasured() == 0);
  foreign.request.kernel = nullptr;
  const TuneTools foreign_tools = foreign.tools();
  CompileAhead of_a_recording(foreign.request, foreign_tools);
  of_a_recording.run(foreign.searcher);
  CHECK(foreign.pool.stats().submitted == 0);
}
