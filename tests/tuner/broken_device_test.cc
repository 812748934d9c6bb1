// A device that fails in the middle of a search: it ends, and what ran since the last canary is nobody's fault.
#include <doctest/doctest.h>

#include "base/error.h"
#include "tests/tuner/doubling_kernel.h"
#include "tests/tuner/grid_search.h"
#include "tests/tuner/temporary_cache.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

std::size_t to_be_retried(const TemporaryCache& stored) {
  std::size_t count = 0;
  for (const TrialRecord& record : stored.cache.trials.of(stored.workload)) count += should_retry(record);
  return count;
}

// One that measures the whole grid in order, beside a canary that is always quiet.
struct OrderlySearch : Search {
  OrderlySearch() {
    request.strategy = "exhaustive";
    request.in_flight = 1;
    request.budget = 64;
    device.canary_answer = [] { return CanaryReading{.elapsed_us = 5000}; };
  }
};

}  // namespace

TEST_CASE("an error of the GPU itself is no candidate's fault") {
  for (const char* code : {"46", "100", "214", "220"}) {
    CAPTURE(code);
    OpenFake fake;
    const std::string bad = std::string("double__sticky") + code;
    CHECK_THROWS_WITH_AS(fake.run(bad), doctest::Contains("the GPU itself fails"), BrokenEnvironment);
    CHECK_THROWS_WITH_AS(fake.device.duel({OpenFake::candidate("double"), OpenFake::candidate(bad)}, {.rounds = 5}),
                         doctest::Contains("the GPU itself fails"), BrokenEnvironment);
    CHECK_THROWS_AS(fake.device.verify(OpenFake::candidate(bad), 8, 10), BrokenEnvironment);
  }
}

TEST_CASE("an unknown error is its candidate's if a known-good kernel runs in a new worker, else the GPU's") {
  for (const char* code : {"999", "714", "226", "304"}) {
    CAPTURE(code);
    const std::string bad = std::string("double__sticky") + code;
    OpenFake fake;
    const TrialResult result = fake.run(bad);
    CHECK(result.outcome == Outcome::launch_failed);
    CHECK_FALSE(result.message.empty());
    CHECK(fake.run("double").outcome == Outcome::ok);
    CHECK(fake.device.restarts() == 1);
    const std::vector<TrialResult> met =
        fake.device.duel({OpenFake::candidate("double__us40"), OpenFake::candidate(bad)}, {.rounds = 5});
    CHECK(met[0].outcome == Outcome::ok);
    CHECK(met[1].outcome == Outcome::launch_failed);

    OpenFake broken("canary_fails");
    CHECK_THROWS_WITH_AS(broken.run(bad), doctest::Contains("a known-good kernel ends in a new process"),
                         BrokenEnvironment);
  }
}

TEST_CASE("what ran since the last canary of a device that failed is run again, its failures too") {
  TemporaryCache stored;
  OrderlySearch broken;
  // The first is the best, after which the canary runs; then nothing is due for half a second.
  broken.device.answer = [&](const Config& config) {
    const std::size_t ran = broken.device.ran.size();
    if (ran == 7) throw BrokenEnvironment("the GPU itself fails");
    if (ran == 4) return TrialResult{.outcome = Outcome::launch_failed, .message = "an error"};
    if (ran == 5) return TrialResult{.outcome = Outcome::wrong_result, .message = "off"};
    return timed(ran == 1 ? 100 : 120 + static_cast<double>(ran) + 0 * config.number("x"));
  };
  CHECK_THROWS_WITH_AS(broken.run(&stored.cache, stored.workload), doctest::Contains("the GPU itself fails"),
                       BrokenEnvironment);
  CHECK(stored.cache.trials.of(stored.workload).size() == 6);
  CHECK(to_be_retried(stored) == 5);

  Search sound;
  sound.request.budget = 64;
  const TuneResult result = sound.run(&stored.cache, stored.workload);
  CHECK(result.counts.resumed == 1);
  CHECK(result.counts[Outcome::launch_failed] == 0);
  CHECK(result.counts[Outcome::wrong_result] == 0);
  CHECK(to_be_retried(stored) == 0);
}

TEST_CASE("a canary that shows that the device works settles the failures before it") {
  TemporaryCache stored;
  OrderlySearch search;
  search.device.answer = [&](const Config&) {
    const std::size_t ran = search.device.ran.size();
    if (ran == 6) throw BrokenEnvironment("the GPU itself fails");
    if (ran == 3) return TrialResult{.outcome = Outcome::wrong_result, .message = "off"};
    return timed(ran == 4 ? 90 : 100 + static_cast<double>(ran));  // the fourth is the best, which the canary follows
  };
  CHECK_THROWS_AS(search.run(&stored.cache, stored.workload), BrokenEnvironment);
  CHECK(stored.cache.trials.of(stored.workload).size() == 5);
  CHECK(to_be_retried(stored) == 1);  // the fifth
}

TEST_CASE("a real worker on a GPU that breaks ends the search, and the next one has all to measure that is unsure") {
  DoublingKernel kernel;
  kernel.entries = {"double__us20", "double__sticky719"};
  for (int us = 21; us < 33; ++us) kernel.entries.push_back("double__us" + std::to_string(us));
  const LegalSpace space = space_of_entries(kernel);
  TuneRequest request;
  request.kernel = &kernel;
  request.problem = doubling_problem(OpenFake::kElements);
  request.space = &space;
  request.strategy = "exhaustive";
  request.in_flight = 1;
  request.duel_rounds = 5;
  request.drop_factor = 10;
  TemporaryCache stored;
  const auto search = [&](const std::string& script) {
    use_fake_cuda(script);
    CudaDevice device = fake_device();
    CompilePool compiler(doubling_compiler(), 1);
    return tune(request, {.device = device, .cache = &stored.cache, .workload = stored.workload, .compiler = &compiler},
                {});
  };
  CHECK_THROWS_WITH_AS(search("fail_at=1000,code=214"), doctest::Contains("the GPU itself fails"), BrokenEnvironment);
  const std::size_t ran = stored.cache.trials.of(stored.workload).size();
  CHECK(ran >= 1);
  CHECK(ran < kernel.entries.size());
  const std::size_t unsure = to_be_retried(stored);
  const TuneResult result = search("");
  CHECK(result.counts.resumed == ran - unsure);
  CHECK(result.counts.total() == kernel.entries.size());
  CHECK(result.counts[Outcome::launch_failed] == 1);  // of the one that fails everywhere
  REQUIRE(result.best);
  CHECK(result.best->config.number("entry") == 0);
}

}  // namespace moetune
