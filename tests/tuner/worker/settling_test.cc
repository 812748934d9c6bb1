// Which rounds of a duel count.
#include "tuner/worker/settling.h"

#include <doctest/doctest.h>

namespace moetune {
namespace {

constexpr double kRoundUs = 6000;

// Rounds of two contestants of which the second draws less power.
Settling rounds_at(const std::vector<double>& clocks, double loaded_us = 0) {
  Settling settling(1980, loaded_us);
  for (const double mhz : clocks) settling.add({{100, mhz}, {120, mhz == 0 ? 0 : mhz + 60}}, kRoundUs);
  return settling;
}

}  // namespace

TEST_CASE("at the highest clock, or an unknown one, every round counts from the first on") {
  CHECK(rounds_at(std::vector<double>(5, 1980)).counting().size() == 5);
  CHECK(rounds_at(std::vector<double>(5, 1965)).counting().size() == 5);
  CHECK(rounds_at(std::vector<double>(5, 0)).counting().size() == 5);
  CHECK(rounds_at({}).counting().empty());
}

TEST_CASE("where the clocks are held down, the first 150 ms of a load do not count") {
  const std::vector<std::size_t> counting = rounds_at(std::vector<double>(30, 1550)).counting();
  REQUIRE(counting.size() == 5);
  CHECK(counting.front() == 25);
  CHECK(rounds_at(std::vector<double>(30, 1550), 140'000).counting().front() == 2);
  CHECK(rounds_at(std::vector<double>(10, 1550)).counting().empty());
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
  CHECK(rounds_at(clocks).counting().size() == 35);
}

}  // namespace moetune
