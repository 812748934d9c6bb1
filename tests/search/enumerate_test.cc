#include "search/enumerate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "search/space.h"
#include "tests/search/random_space.h"

using namespace moetune;

namespace {

// All legal points by looking at every point of the Cartesian product, with the test's own evaluator.
std::vector<Position> brute_force(const RandomSpace& space) {
  std::vector<Position> rows;
  std::vector<Position> point(space.domains.size());
  for (;;) {
    if (space.is_legal(point)) rows.insert(rows.end(), point.begin(), point.end());
    std::size_t p = point.size();
    while (p > 0 && ++point[p - 1] == space.domains[p - 1].size()) point[--p] = 0;
    if (p == 0) return rows;
  }
}

std::vector<Position> rows_of(const LegalSpace& space) {
  std::vector<Position> rows;
  for (ConfigId id = 0; id < space.size(); ++id) {
    const auto point = space.point(id);
    rows.insert(rows.end(), point.begin(), point.end());
  }
  return rows;
}

}  // namespace

TEST_CASE("on random spaces enumeration equals brute force, and every row is legal and finds itself") {
  std::size_t nonempty = 0;
  std::size_t cut_short = 0;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const RandomSpace random(seed);
    CAPTURE(random.json());
    const Space space = Space::parse(random.json(), "random.json");
    EnumerationStats stats;
    const LegalSpace legal = space.enumerate(random.environment(), Rules::all, &stats);
    REQUIRE(rows_of(legal) == brute_force(random));
    for (ConfigId id = 0; id < legal.size(); ++id) {
      REQUIRE(legal.find(legal.config(id)) == id);
      if (id % 16 == 0) REQUIRE(space.why_illegal(legal.config(id), random.environment()) == "");
    }
    nonempty += !legal.empty() && legal.size() < legal.cartesian_size();
    cut_short += static_cast<double>(stats.nodes) < legal.cartesian_size();
  }
  CHECK(nonempty > 150);  // the generator must not make the property vacuous
  CHECK(cut_short > 500);
}

TEST_CASE("on random spaces neighbours are legal, differ in one parameter and are symmetric") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const RandomSpace random(seed);
    const LegalSpace legal = Space::parse(random.json(), "random.json").enumerate(random.environment());
    for (ConfigId id = 0; id < legal.size(); id += 7) {
      for (const ConfigId other : legal.neighbours(id)) {
        std::size_t differing = 0;
        for (std::size_t p = 0; p < legal.parameters().size(); ++p) {
          differing += legal.point(id)[p] != legal.point(other)[p];
        }
        REQUIRE(differing == 1);
        const std::vector<ConfigId> back = legal.neighbours(other);
        REQUIRE(std::count(back.begin(), back.end(), id) == 1);
      }
    }
  }
}

TEST_CASE("a constraint is tested before parameters it does not read are bound") {
  const Space space = Space::parse(R"json({
    "kernel": "k",
    "parameters": [
      {"name": "a", "values": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}, {"name": "b", "values": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]},
      {"name": "c", "values": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}, {"name": "d", "values": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]},
      {"name": "e", "values": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}, {"name": "f", "values": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}],
    "let": {"sum": "a + f"},
    "constraints": [{"expr": "sum == 3", "why": "w"}, {"expr": "b * e == 7", "why": "w"}]})json",
                                   "k.json");
  EnumerationStats stats;
  const LegalSpace legal = space.enumerate({}, Rules::all, &stats);
  CHECK(legal.size() == 4 * 2 * 100);
  CHECK(stats.nodes < 1500);  // of a million points; 800 of the nodes are legal leaves
  for (ConfigId id = 1; id < legal.size(); ++id) {
    REQUIRE(std::lexicographical_compare(legal.point(id - 1).begin(), legal.point(id - 1).end(),
                                         legal.point(id).begin(), legal.point(id).end()));
  }
}
