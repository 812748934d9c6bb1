// The arithmetic of measuring that needs no device.
#include <doctest/doctest.h>

#include <numeric>

#include "base/statistics.h"
#include "tuner/worker/benchmark.h"
#include "tuner/worker/tensors.h"

namespace moetune {
namespace {

std::vector<double> up_to(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

}  // namespace

TEST_CASE("the median of an even count is between the middle two, whatever the order") {
  CHECK(median_interval({3}).median == 3);
  CHECK(median_interval({4, 1, 3, 2}).median == 2.5);
  CHECK(median_interval({9, 1, 5}).median == 5);
}

TEST_CASE("the interval leaves out as many order statistics as 95 percent allows") {
  // Tables of the sign test: n = 5 none, 6 to 8 the extremes, 9 to 11 the second, 12 the third, 40 the
  // fourteenth.
  CHECK(median_interval(up_to(5)).low == 1);
  CHECK(median_interval(up_to(8)).low == 1);
  CHECK(median_interval(up_to(8)).high == 8);
  CHECK(median_interval(up_to(9)).low == 2);
  CHECK(median_interval(up_to(9)).high == 8);
  CHECK(median_interval(up_to(12)).low == 3);
  CHECK(median_interval(up_to(40)).low == 14);
  CHECK(median_interval(up_to(40)).high == 27);
  // Summed exactly; from 501 on the normal distribution gives the same.
  CHECK(median_interval(up_to(500)).low == 228);
  CHECK(median_interval(up_to(501)).low == 229);
  CHECK(median_interval(up_to(2000)).low == 956);
  CHECK(median_interval(up_to(100'000)).low == 49'690);
}

TEST_CASE("a sample lasts long enough for its events and holds whole turns where these are short") {
  CHECK(launches_per_sample(450, 2, 400) == 2);
  CHECK(launches_per_sample(450, 2, 3000) == 8);
  CHECK(launches_per_sample(1.6, 400, 400) == 400);
  CHECK(launches_per_sample(10, 1, 400) == 40);
  CHECK(launches_per_sample(10, 3, 400) == 42);
  CHECK(launches_per_sample(5000, 2, 400) == 1);
  CHECK(launches_per_sample(100, 400, 400) == 4);
  CHECK(launches_per_sample(0, 1, 400) == 1024);
}

TEST_CASE("streamed inputs rotate over several times the cache, as memory allows") {
  constexpr std::int64_t kMiB = 1 << 20, kGiB = 1 << 30;
  CHECK(copies_for(0, kMiB, 50 * kMiB, kGiB) == 1);
  CHECK(copies_for(2 * kGiB, 0, 50 * kMiB, 100 * kGiB) == 2);
  CHECK(copies_for(100'000'000, 0, 50 * kMiB, 100 * kGiB) == 4);
  CHECK(copies_for(100'000'000, 0, 200 * kMiB, 100 * kGiB) == 9);
  CHECK(copies_for(100, 0, 50 * kMiB, 100 * kGiB) == 512);
  CHECK(copies_for(2 * kGiB, 0, 50 * kMiB, 3 * kGiB) == 1);
  CHECK(copies_for(2 * kGiB, 0, 50 * kMiB, 2 * kGiB) == 0);
  CHECK(copies_for(kGiB, 2 * kGiB, 50 * kMiB, 3 * kGiB) == 0);
}

TEST_CASE("turns hold all orders, and a copy comes back only after all others") {
  for (std::int64_t copies = 1; copies <= 64; ++copies) {
    CAPTURE(copies);
    const std::int64_t turns = turns_for(copies, 16);
    CHECK(turns >= 16);
    CHECK(turns % copies == 0);
    CHECK(turns < 16 + copies);
  }
  CHECK(turns_for(7, 1) == 7);
  CHECK(turns_for(1, 1) == 1);
}

TEST_CASE("a copy's guard band starts right behind its last byte") {
  const ArenaLayout layout = ArenaLayout::of(1002, 3);
  CHECK(layout.guard >= 64 << 10);
  CHECK(layout.offset(0) == layout.guard);
  CHECK(layout.offset(1) - (layout.offset(0) + 1002) >= 64 << 10);
  CHECK(layout.offset(2) % 256 == 0);
  CHECK(layout.total() == layout.offset(2) + layout.stride);
}

}  // namespace moetune
