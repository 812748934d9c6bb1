#include "base/profiler_range.h"

#include <doctest/doctest.h>

#include <ctime>

#include "tests/sanitized.h"

using namespace moetune;

TEST_CASE("without a profiler a range costs next to nothing, and asks for no name") {
  bool was_asked = false;
  {
    const ProfilerRange range([&] {
      was_asked = true;
      return std::string("name");
    });
    name_phase("searching");
    name_phase(nullptr);
  }
  CHECK_FALSE(was_asked);
  CHECK_FALSE(ProfilerRange::has_listener());
#ifdef __OPTIMIZE__  // the loads are this file's
  if (kSanitized) return;
  constexpr int kRanges = 1'000'000;
  const std::clock_t begin = std::clock();  // of this process, whatever else runs
  for (int i = 0; i < kRanges; ++i) {
    const ProfilerRange range("name");
    asm volatile("" ::: "memory");
  }
  CHECK(1e9 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / kRanges < 5);
#endif
}
