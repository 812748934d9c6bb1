// What a strategy foresees: the likeliest of what it may ask next.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "search/random.h"
#include "search/searcher.h"

namespace moetune::likely_next_test {
namespace {

LegalSpace square(std::size_t side) {
  std::vector<Parameter> parameters;
  for (const char* name : {"a", "b", "c"}) {
    Parameter& parameter = parameters.emplace_back(Parameter{name, {}, ""});
    for (std::size_t i = 0; i < side; ++i) parameter.values.push_back(Value::integer(static_cast<std::int64_t>(i + 1)));
  }
  std::vector<Position> rows;
  for (std::size_t i = 0; i < side * side * side; ++i) {
    for (const std::size_t divisor : {side * side, side, std::size_t{1}})
      rows.push_back(static_cast<Position>(i / divisor % side));
  }
  return LegalSpace(parameters, rows);
}

// Times that follow from the parameters in no way that is easily seen.
Observation synthetic_outcome(const LegalSpace& space, ConfigId id) {
  const std::span<const Position> at = space.point(id);
  const double ridge = std::abs(static_cast<double>(at[0] * at[1]) - static_cast<double>(3 * at[2] * at[2]) + 20);
  return {id, Outcome::ok, 11.4 + 0.2 * ridge + Random(id).unit()};
}

}  // namespace

TEST_CASE("what is foreseen is untried and mostly what is asked next, and to look changes nothing") {
  const LegalSpace space = square(10);
  const auto looked_at = make_searcher("auto", space, 3), left_alone = make_searcher("auto", space, 3);
  CHECK(looked_at->likely_next(8).empty());
  std::set<ConfigId> told;
  int foreseen = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const std::vector<ConfigId> next = looked_at->likely_next(8);
    CHECK(next.size() <= 8);
    CHECK(std::set<ConfigId>(next.begin(), next.end()).size() == next.size());
    for (const ConfigId id : next) CHECK_FALSE(told.contains(id));
    const ConfigId id = looked_at->ask(1).at(0);
    REQUIRE(left_alone->ask(1).at(0) == id);
    foreseen += std::find(next.begin(), next.end(), id) != next.end();
    told.insert(id);
    looked_at->tell(synthetic_outcome(space, id));
    left_alone->tell(synthetic_outcome(space, id));
  }
  CHECK(foreseen > 25);
}

}  // namespace moetune::likely_next_test
