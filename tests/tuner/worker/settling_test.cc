// Which rounds of a duel count.
#include "tuner/worker/settling.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace moetune {
namespace {

constexpr double kRoundUs = 6000;

// Rounds of two contestants of which the second draws less power. Their times follow the clock but for `indifferent`
// ones.
Settling rounds_at(const std::vector<double>& clocks, double loaded_us = 0, bool indifferent = false) {
  Settling settling(1980, loaded_us);
  for (const double mhz : clocks) {
    const double slower = indifferent || mhz == 0 ? 1 : 1980 / mhz;
    settling.add({{100 * slower, mhz}, {120 * slower, mhz == 0 ? 0 : std::min(1980.0, mhz + 60)}}, kRoundUs);
  }
  return settling;
}

// 1740 MHz for 72 ms, then 1550.
std::vector<double> clamped(std::size_t rounds) {
  std::vector<double> clocks(rounds, 1550);
  std::fill_n(clocks.begin(), std::min<std::size_t>(rounds, 12), 1740);
  return clocks;
}

}  // namespace

TEST_CASE("at the highest clock, or an unknown one, every round counts from the first on") {
  CHECK(rounds_at(std::vector<double>(5, 1980)).counting().size() == 5);
  CHECK(rounds_at(std::vector<double>(5, 1965)).counting().size() == 5);
  CHECK(rounds_at(std::vector<double>(5, 0)).counting().size() == 5);
  CHECK(rounds_at({}).counting().empty());
}

TEST_CASE("where the clocks are held down, the first 150 ms of a load do not count") {
  const std::vector<std::size_t> counting = rounds_at(clamped(30)).counting();
  REQUIRE(counting.size() == 5);
  CHECK(counting.front() == 25);
  CHECK(rounds_at(std::vector<double>(30, 1550), 150'000).counting().front() == 0);
  CHECK(rounds_at(clamped(10)).counting().empty());
  // Rounds enough, but the controller has not swung to and fro yet.
  CHECK_FALSE(rounds_at(clamped(40)).is_enough(11));
  CHECK_FALSE(rounds_at(clamped(74)).is_enough(11));
  CHECK(rounds_at(clamped(75)).is_enough(11));
  CHECK_FALSE(rounds_at(clamped(75)).is_enough(51));
}

TEST_CASE("where clocks are held down and times do not care, every round counts once that is known") {
  CHECK(rounds_at(clamped(27), 0, true).counting().size() == 2);
  CHECK_FALSE(rounds_at(clamped(27), 0, true).is_enough(11));
  CHECK(rounds_at(clamped(28), 0, true).counting().size() == 28);
  CHECK(rounds_at(clamped(28), 0, true).is_enough(11));
}

TEST_CASE("a clock above what the GPU reports is its highest from then on") {
  std::vector<double> clocks(30, 1970);
  std::fill_n(clocks.begin(), 10, 2200);
  Settling settling(1980, 0);
  for (const double mhz : clocks) settling.add({{100 * 2200 / mhz, mhz}}, kRoundUs);
  CHECK(settling.follows_clock());
}

TEST_CASE("rounds in a dip do not count, wherever it is") {
  std::vector<double> clocks(100, 1550);
  for (std::size_t i = 0; i < 10; ++i) clocks[i] = 1740;
  for (std::size_t i = 60; i < 75; ++i) clocks[i] = 1300 + 10 * static_cast<double>(i - 60);
  const std::vector<std::size_t> counting = rounds_at(clocks).counting();
  CHECK(counting.size() == 100 - 25 - 15);
  for (const std::size_t i : counting) CHECK((i < 60 || i >= 75));
}

TEST_CASE("clocks that wander within one percent are settled") {
  std::vector<double> clocks;
  for (int i = 0; i < 60; ++i) clocks.push_back(1540 + 15 * (i % 2));
  CHECK(rounds_at(clocks).counting().size() == 60);  // and so near that times are the same
  std::fill_n(clocks.begin(), 12, 1740);
  CHECK(rounds_at(clocks).counting().size() == 35);
}

}  // namespace moetune
