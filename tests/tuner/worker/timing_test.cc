// How launches follow each other while they are timed, by the real worker over a scripted stand-in for libcuda.
#include "keys/timing.h"

#include <doctest/doctest.h>

#include "tests/tuner/doubling_kernel.h"
#include "tuner/worker/cuda_device.h"

namespace moetune {
namespace {

constexpr std::int64_t kTimedElements = 1000;

class TimedFake {
 public:
  explicit TimedFake(const std::string& script) : device((use_fake_cuda(script), fake_device())) {
    device.open(kernel_, doubling_problem(kTimedElements), 7);
  }
  TrialResult run(const std::string& entry, const MeasurePolicy& policy) {
    return device.run(doubling_candidate(entry, kTimedElements), policy);
  }

 private:
  DoublingKernel kernel_;

 public:
  CudaDevice device;
};

}  // namespace

TEST_CASE("a chained launch finds what a producer has just written, whose time is taken off") {
  // Without a producer in front, and over every copy, it would take 20 microseconds more.
  TimedFake fake("unproduced=20");
  MeasurePolicy policy = {.time_limit_s = 5};
  CHECK(fake.run("double__us50", policy).measurement.median_us == doctest::Approx(70));
  policy.timing = Timing::alone;
  CHECK(fake.run("double__us50", policy).measurement.median_us == doctest::Approx(70));
  policy.timing = Timing::chained;
  const TrialResult chained = fake.run("double__us50", policy);
  REQUIRE_MESSAGE(chained.outcome == Outcome::ok, chained.message);
  for (const double sample : chained.measurement.samples_us) CHECK(sample == doctest::Approx(50));
  const std::vector<Candidate> pair = {doubling_candidate("double__us40", kTimedElements),
                                       doubling_candidate("double__us50", kTimedElements)};
  const std::vector<TrialResult> duel = fake.device.duel(pair, {.rounds = 5, .timing = Timing::chained});
  CHECK(duel[0].measurement.median_us == doctest::Approx(40));
  CHECK(duel[1].measurement.median_us == doctest::Approx(50));
  CHECK(fake.device.duel(pair, {.rounds = 5})[1].measurement.median_us == doctest::Approx(70));
  policy.drop_above_us = 51;  // the producer does not count
  CHECK(fake.run("double__us50", policy).outcome == Outcome::ok);
  policy.drop_above_us = 49;
  CHECK(fake.run("double__us50", policy).outcome == Outcome::too_slow);
}

TEST_CASE("a duel's times are those of the clock that the GPU keeps up under its load") {
  // The highest clock is 1000 MHz. A tenth less at first, then 800 MHz but for a dip of 150 ms.
  TimedFake fake("clocks=900:80000/800:300000/600:450000/800");
  const std::vector<Candidate> pair = {doubling_candidate("double__us40", kTimedElements),
                                       doubling_candidate("double__us50", kTimedElements)};
  const std::vector<TrialResult> settled = fake.device.duel(pair, {.rounds = 31, .settling_s = 60});
  CHECK(settled[0].measurement.median_us == doctest::Approx(50));
  CHECK(settled[1].measurement.median_us == doctest::Approx(62.5));
  CHECK(settled[0].measurement.high_us == doctest::Approx(50));
  CHECK(settled[0].measurement.sm_clock_mhz == 800);
  CHECK(settled[0].measurement.settled);
  CHECK(settled[0].measurement.samples_us.size() >= 31);

  // At the highest clock nothing needs to settle.
  TimedFake unhindered("clocks=1000");
  const TrialResult quick = unhindered.device.duel(pair, {.rounds = 5})[0];
  CHECK(quick.measurement.samples_us.size() == 5);
  CHECK(quick.measurement.median_us == doctest::Approx(40));
  CHECK(quick.measurement.sm_clock_mhz == 1000);
  CHECK(quick.measurement.settled);
}

TEST_CASE("a result of clocks that never settle says so") {
  std::string restless = "clocks=";
  for (int i = 1; i < 2000; ++i) restless += std::to_string(500 + i * 97 % 400) + ":" + std::to_string(4000 * i) + "/";
  TimedFake fake(restless + "900");
  const TrialResult result = fake.device.duel({doubling_candidate("double__us40", kTimedElements)}, {.rounds = 31})[0];
  CHECK(result.outcome == Outcome::ok);
  CHECK_FALSE(result.measurement.settled);
}

TEST_CASE("a chained candidate that breaks the GPU is one that fails, and the next is fine") {
  TimedFake fake("unproduced=20");
  MeasurePolicy policy = {.time_limit_s = 5};
  policy.timing = Timing::chained;
  CHECK(fake.run("double__sticky719", policy).outcome == Outcome::launch_failed);
  CHECK(fake.run("double__us30", policy).measurement.median_us == doctest::Approx(30));
}

}  // namespace moetune
