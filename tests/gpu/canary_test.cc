// The canary on a real GPU that nobody else uses.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/gpu/gpu.h"
#include "tests/gpu/planted.h"

namespace moetune {

TEST_CASE("on a quiet GPU the canary takes 5 ms, loses no time and finds its SMs its own") {
  if (no_gpu()) return;
  gpu().open(planted_kernel(), planted_problem(1000), 3);
  double longest_us = 0, slowest = 0;
  for (int i = 0; i < 50; ++i) {
    const std::optional<CanaryReading> reading = gpu().canary();
    REQUIRE(reading);
    CHECK_FALSE(reading->is_disturbed());
    CHECK(reading->elapsed_us >= 5000);
    CHECK(reading->elapsed_us < 5500);
    longest_us = std::max(longest_us, reading->longest_gap_us);
    slowest = std::max(slowest, reading->slow_share);
  }
  MESSAGE("longest gap " << longest_us << " us, largest share of slow windows " << slowest);
  CHECK(longest_us == 0);
  CHECK(slowest < 0.05);
}

}  // namespace moetune
