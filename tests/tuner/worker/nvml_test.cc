#include "tuner/worker/nvml.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/paths.h"

using namespace moetune;

namespace {

// What GPU `ordinal` reports by the scripted library.
Nvml gpu_of(const std::string& script, int ordinal = 0) {
  setenv("MOETUNE_LIBNVML", paths::fake_libnvml(), 1);
  setenv("MOETUNE_FAKE_NVML", script.c_str(), 1);
  return Nvml("0000:0" + std::to_string(ordinal) + ":00.0", "");
}

}  // namespace

TEST_CASE("clocks, temperature and settings are each a GPU's own, in their units") {
  const std::string script = "sm0=1500,mem0=2600,celsius0=61,power0=650500,sm1=1980,power1=700499,mig1=1,ecc1=0";
  const Nvml first = gpu_of(script), second = gpu_of(script, 1);
  CHECK(first.read().sm_clock_mhz == 1500);
  CHECK(first.read().memory_clock_mhz == 2600);
  CHECK(first.read().temperature_c == 61);
  CHECK_FALSE(first.read().throttled);
  CHECK(second.read().sm_clock_mhz == 1980);
  CHECK(second.read().memory_clock_mhz == 0);  // not known
  REQUIRE(first.settings());
  CHECK(first.settings()->power_limit_w == 651);
  CHECK(first.settings()->mig == false);
  CHECK(first.settings()->ecc == true);
  CHECK(second.settings()->power_limit_w == 700);
  CHECK(second.settings()->mig == true);
  CHECK(second.settings()->ecc == false);
  unsetenv("MOETUNE_FAKE_NVML");
  unsetenv("MOETUNE_LIBNVML");
}

TEST_CASE("power and heat throttle a GPU; that it is idle, or that somebody set its clocks, does not") {
  for (const int reason : {0x4, 0x8, 0x20, 0x40, 0x80, 0x21})
    CHECK(gpu_of("slowed0=" + std::to_string(reason)).read().throttled);
  for (const int reason : {0, 0x1, 0x2, 0x10, 0x100})
    CHECK_FALSE(gpu_of("slowed0=" + std::to_string(reason)).read().throttled);
  unsetenv("MOETUNE_FAKE_NVML");
  unsetenv("MOETUNE_LIBNVML");
}
