// How a list is dealt to the shards of a fleet.
#include "retune/shard.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "search/random.h"

using namespace moetune;

namespace {

std::vector<DealtPoint> random_points(Random& random, std::size_t count, std::uint64_t longest) {
  std::vector<DealtPoint> points;
  for (std::size_t i = 0; i < count; ++i)
    points.push_back({{"router", "tokens=" + std::to_string(i), 1.0},
                      1 + static_cast<std::uint64_t>(random.unit() * static_cast<double>(longest))});
  return points;
}

std::uint64_t length_of(const std::vector<TuningPoint>& part, const std::vector<DealtPoint>& all) {
  std::uint64_t sum = 0;
  for (const TuningPoint& point : part)
    for (const DealtPoint& one : all) sum += one.point == point ? one.length_ms : 0;
  return sum;
}

std::multiset<std::string> problems_of(const std::vector<TuningPoint>& part) {
  std::multiset<std::string> all;
  for (const TuningPoint& point : part) all.insert(point.problem);
  return all;
}

}  // namespace

TEST_CASE("property: every point is dealt once, and no shard has much more than its share") {
  Random random(5);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t shards = 1 + static_cast<std::uint64_t>(random.unit() * 9);
    const auto points = random_points(random, static_cast<std::size_t>(random.unit() * 60), 1000);
    const auto dealt = deal(points, shards);
    REQUIRE(dealt.size() == shards);
    std::multiset<std::string> seen;
    std::uint64_t most = 0, sum = 0, longest = 0;
    for (const auto& part : dealt) {
      seen.merge(problems_of(part));
      most = std::max(most, length_of(part, points));
    }
    for (const DealtPoint& point : points) {
      sum += point.length_ms;
      longest = std::max(longest, point.length_ms);
    }
    CHECK(seen.size() == points.size());
    CHECK(std::set<std::string>(seen.begin(), seen.end()).size() == points.size());
    CHECK(static_cast<double>(most) <=
          static_cast<double>(sum) / static_cast<double>(shards) + static_cast<double>(longest));
  }
}

TEST_CASE("longest first: one long point is alone, and the short ones share the other shard") {
  const std::vector<DealtPoint> points = {
      {{"router", "a", 1}, 10}, {{"router", "b", 9}, 10}, {{"router", "c", 1}, 30}, {{"router", "d", 1}, 10}};
  const auto dealt = deal(points, 2);
  CHECK(problems_of(dealt[0]) == std::multiset<std::string>{"c"});
  CHECK(problems_of(dealt[1]) == std::multiset<std::string>{"a", "b", "d"});
}

TEST_CASE("property: the order of the list does not matter, because digests break ties") {
  Random random(6);
  for (int round = 0; round < 100; ++round) {
    auto points = random_points(random, 20, 3);
    const auto before = deal(points, 4);
    for (std::size_t i = points.size(); i > 1; --i)
      std::swap(points[i - 1], points[static_cast<std::size_t>(random.unit() * static_cast<double>(i))]);
    const auto after = deal(points, 4);
    for (std::size_t k = 0; k < 4; ++k) CHECK(problems_of(before[k]) == problems_of(after[k]));
  }
}

TEST_CASE("a longer problem is a longer search, and a shard has what the deal gives it, in the list's order") {
  const TuningPoint small{"decode_kernel", "elements=1024", 1}, large{"decode_kernel", "elements=268435456", 1};
  CHECK(search_length_ms(large, 200) > search_length_ms(small, 200));
  CHECK(search_length_ms(small, 400) == doctest::Approx(2 * search_length_ms(small, 200)).epsilon(0.01));
  CHECK_THROWS_AS(search_length_ms({"no_kernel", "", 1}, 200), BadInput);
  std::vector<TuningPoint> points;
  for (int i = 10; i < 20; ++i) points.push_back({"decode_kernel", "elements=" + std::to_string(1 << i), 30.0 - i});
  std::size_t together = 0;
  for (std::uint64_t k = 1; k <= 3; ++k) {
    const auto part = work_of_shard({{}, points}, {k, 3}, 100).points;
    together += part.size();
    CHECK(std::is_sorted(part.begin(), part.end(),
                         [](const TuningPoint& a, const TuningPoint& b) { return a.weight > b.weight; }));
  }
  CHECK(together == points.size());
  CHECK(work_of_shard({{}, points}, {1, 1}, 100).points == points);
}

TEST_CASE("ranges are dealt with the points, and count as ten searches") {
  TuningWork work;
  work.ranges.push_back({"decode_kernel", "elements=1024", "elements=1024..4096", 1});
  for (int i = 0; i < 10; ++i) work.points.push_back({"decode_kernel", "elements=" + std::to_string(1024 + i), 1});
  const TuningWork first = work_of_shard(work, {1, 2}, 100), second = work_of_shard(work, {2, 2}, 100);
  CHECK(first.ranges == work.ranges);
  CHECK(first.points.empty());
  CHECK(second.ranges.empty());
  CHECK(second.points == work.points);
}

TEST_CASE("more shards than points: the rest have nothing to do") {
  const auto dealt = deal({{{"router", "a", 1}, 10}}, 3);
  CHECK(dealt[0].size() == 1);
  CHECK(dealt[1].empty());
  CHECK(dealt[2].empty());
}

TEST_CASE("a shard is written K/N") {
  CHECK(parse_shard("2/4").number == 2);
  CHECK(parse_shard("2/4").count == 4);
  for (const char* wrong : {"", "0/2", "3/2", "1", "1/", "a/b", "1/2x", "-1/2", " 1/2", "1/+2"})
    CHECK_THROWS_AS(parse_shard(wrong), BadInput);
}
