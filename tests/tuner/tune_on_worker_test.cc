// A whole search over the real worker process and the stand-in for libcuda: every way a candidate can end.
#include <doctest/doctest.h>

#include "tests/tuner/doubling_kernel.h"
#include "tuner/tune.h"

namespace moetune {

TEST_CASE("a search in which candidates hang, crash, fail, are wrong and lack memory finds the best") {
  use_fake_cuda();
  CudaDevice device = fake_device();
  DoublingKernel kernel;
  kernel.entries = {"double__us40",  "double__hang",    "double__segv",  "double__us20",
                    "double__wrong", "double__oom",     "double__abort", "double__sticky719",
                    "double__us25",  "double__refuse1", "double__us500", "broken"};
  Parameter entry{"entry", {}, ""};
  std::vector<Position> rows;
  for (std::size_t i = 0; i < kernel.entries.size(); ++i) {
    entry.values.push_back(Value::integer(static_cast<std::int64_t>(i)));
    rows.push_back(static_cast<Position>(i));
  }
  const LegalSpace space({entry}, rows);
  const auto compile = [](const CompileUnit& unit, const std::stop_token&) {
    Build build;
    const std::string& name = unit.defines.front().second;
    build.outcome = name == "broken" ? Outcome::compile_failed : Outcome::ok;
    build.message = name == "broken" ? "line 3: no" : "";
    build.cubin = {'f', 'a', 'k', 'e', 0};
    build.entries[name] = {};
    return build;
  };
  CompilePool compiler({[](const CompileUnit& unit) { return unit.defines.front().second; }, compile}, 1);
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
