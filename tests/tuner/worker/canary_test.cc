// The canary on the scripted GPU: what it reads beside another process, and what becomes of one that fails.
#include "tuner/worker/canary.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <cstdlib>

#include "tests/paths.h"
#include "tests/tuner/doubling_kernel.h"

using namespace moetune;

TEST_CASE("a canary is quiet but for those beside which another process computes") {
  OpenFake fake("busy=2-3");
  const bool expected[] = {false, true, true, false};
  for (const bool disturbed : expected) {
    CHECK(fake.run("double__us50").measurement.median_us == doctest::Approx(disturbed ? 100 : 50));
    const std::optional<CanaryReading> reading = fake.device.canary();
    REQUIRE(reading);
    CHECK(reading->is_disturbed() == disturbed);
    CHECK(reading->elapsed_us == doctest::Approx(5000));
    CHECK(reading->longest_gap_us == doctest::Approx(disturbed ? 2000 : 0));
  }
}

TEST_CASE("other processes are counted only if NVML lists this one too, and are no disturbance by themselves") {
  setenv("MOETUNE_LIBNVML", paths::fake_libnvml(), 1);
  for (const bool listed : {false, true}) {
    setenv("MOETUNE_FAKE_NVML", listed ? "busy0=2,lists0=1" : "busy0=2", 1);
    OpenFake fake;
    const std::optional<CanaryReading> reading = fake.device.canary();
    REQUIRE(reading);
    CHECK(reading->other_processes == (listed ? std::optional(2) : std::nullopt));
    CHECK_FALSE(reading->is_disturbed());
  }
  unsetenv("MOETUNE_LIBNVML");
  unsetenv("MOETUNE_FAKE_NVML");
}

TEST_CASE("a canary that fails in a new worker too is the GPU's, and the next candidate gets a worker that works") {
  OpenFake fake;
  CHECK(fake.run("double__sticky719").outcome == Outcome::launch_failed);
  CHECK(fake.device.canary());  // on a new worker
  kill(fake.device.worker_pid(), SIGKILL);
  CHECK(fake.device.canary());

  OpenFake lost("canary_fails");
  CHECK_THROWS_WITH_AS(lost.device.canary(), doctest::Contains("a known-good kernel ends in a new process"),
                       BrokenEnvironment);
  CHECK(lost.run("double__us50").outcome == Outcome::ok);
  CHECK(lost.device.restarts() == 2);
}
