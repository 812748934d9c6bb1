#include "ranges/grid.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"

using namespace moetune;

TEST_CASE("ranges are read as they are written") {
  const std::vector<DimensionRange> ranges = parse_ranges("batch=1..256,context=512..128k,heads=4");
  CHECK(ranges == std::vector<DimensionRange>{{"batch", 1, 256}, {"context", 512, 131072}, {"heads", 4, 4}});
  CHECK(ranges_text(ranges) == "batch=1..256,context=512..131072,heads=4..4");
  CHECK(parse_ranges(ranges_text(ranges)) == ranges);
  CHECK(parse_ranges("tokens=1..1m")[0].last == 1024 * 1024);
}

TEST_CASE("what is no range is refused") {
  for (const char* text :
       {"", "batch", "=1..2", "batch=", "batch=0..4", "batch=4..2", "batch=1..", "batch=..4", "batch=1...4", "batch=a",
        "batch=1..2,batch=3", "batch=-1..2", "batch=1..99999999999999999999", "batch=1..9000000000m", "a=1,,b=2",
        "a=1,b=1,c=1,d=1,e=1", "batch=k"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_ranges(text), BadInput);
  }
}

TEST_CASE("an axis begins and ends as it is asked, ascends, and leaves no gap wider than it may") {
  for (const std::int64_t first : {1, 2, 3, 7, 512, 1000}) {
    for (const std::int64_t factor : {1, 2, 3, 5, 64, 1000}) {
      for (const double octaves : {0.5, 1.0, 2.0}) {
        const std::int64_t last = first * factor;
        const std::vector<std::int64_t> axis = axis_coordinates(first, last, octaves);
        REQUIRE(axis.front() == first);
        REQUIRE(axis.back() == last);
        for (std::size_t i = 1; i < axis.size(); ++i) {
          CHECK(axis[i] > axis[i - 1]);
          const double ratio = static_cast<double>(axis[i]) / static_cast<double>(axis[i - 1]);
          // Small numbers are rounded to whole ones.
          CHECK((std::log2(ratio) <= octaves + 0.6 || axis[i] == axis[i - 1] + 1));
        }
      }
    }
  }
  CHECK(axis_coordinates(1, 256, 2) == std::vector<std::int64_t>{1, 4, 16, 64, 256});
}

TEST_CASE("lengths between the ends are no whole tiles, and the ends are as they were asked for") {
  CHECK(within_tiles({512, 1024, 2048, 131072}) == std::vector<std::int64_t>{512, 1099, 2123, 131072});
  CHECK(within_tiles({1, 64, 500, 520, 600}) == std::vector<std::int64_t>{1, 64, 485, 587, 600});
  CHECK(within_tiles({64, 128, 256, 512, 4096}) == std::vector<std::int64_t>{64, 165, 293, 587, 4096});
  CHECK(within_tiles({512, 590, 600, 610}) == std::vector<std::int64_t>{512, 587, 587, 610});
  CHECK(within_tiles({700, 715}) == std::vector<std::int64_t>{700, 715});
  CHECK(within_tiles({700}) == std::vector<std::int64_t>{700});
  for (std::int64_t last = 600; last < 5000; last += 37) {
    const std::vector<std::int64_t> axis = within_tiles(axis_coordinates(100, last, 0.25));
    CHECK(std::ranges::is_sorted(axis));
    for (std::size_t i = 1; i + 1 < axis.size(); ++i) CHECK((axis[i] < 128 || axis[i] % 16 != 0));
  }
}

TEST_CASE("a grid holds every combination once") {
  const std::vector<GridPoint> points = grid_points({{1, 4}, {8, 16, 32}});
  CHECK(points.size() == 6);
  CHECK(std::set<GridPoint>(points.begin(), points.end()).size() == 6);
  CHECK(points[0] == GridPoint{1, 8});
  CHECK(points[1] == GridPoint{1, 16});
  CHECK(grid_points({}).empty());
}

TEST_CASE("the order visits every point once, begins in the middle, and then goes to the corners") {
  const std::vector<GridPoint> points = grid_points({{1, 4, 16, 64, 256}, {512, 2048, 8192, 32768, 131072}});
  const std::vector<std::size_t> order = spread_order(points);
  CHECK(std::set<std::size_t>(order.begin(), order.end()).size() == points.size());
  CHECK(points[order[0]] == GridPoint{16, 8192});
  const std::set<GridPoint> corners = {{1, 512}, {1, 131072}, {256, 512}, {256, 131072}};
  for (std::size_t i = 1; i <= 4; ++i) CHECK(corners.contains(points[order[i]]));
  CHECK(spread_order({}).empty());
}

TEST_CASE("an extent is a number with or without a unit, in either case") {
  CHECK(parse_extent("64") == 64);
  CHECK(parse_extent("2k") == 2048);
  CHECK(parse_extent("2K") == 2048);
  CHECK(parse_extent("3M") == 3 * 1024 * 1024);
  CHECK(parse_ranges("context=2K..8K") == parse_ranges("context=2048..8192"));
  for (const char* const text : {"", "k", "0", "-1", "2kk", "1g", "1.5", "1099511627777", "1099511627776k"})
    CHECK_MESSAGE(!parse_extent(text), text);
}
