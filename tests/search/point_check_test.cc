#include "search/point_check.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "tests/search/random_space.h"

namespace moetune {

TEST_CASE("on random spaces single points are judged as an evaluator of the test's own judges them") {
  std::size_t legal = 0, illegal = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const RandomSpace random(seed);
    CAPTURE(random.json());
    const SpaceFile file = read_space_file(random.json(), "random.json");
    const Assignment environment = random.environment();
    const PointCheck check(file, environment);
    Random draw(seed);
    for (int i = 0; i < 40; ++i) {
      std::vector<Position> point;
      Config config;
      for (const Parameter& parameter : file.parameters) {
        point.push_back(static_cast<Position>(draw.below(parameter.values.size())));
        config.set(parameter.name, parameter.values[point.back()]);
      }
      const bool expected = random.is_legal(point);
      REQUIRE(check.is_legal(config, Rules::all) == expected);
      (expected ? legal : illegal) += 1;
    }
  }
  CHECK(legal > 1000);
  CHECK(illegal > 1000);
}

TEST_CASE("a name that the environment lacks is refused by the expression that uses it") {
  const SpaceFile file = read_space_file(R"json({
    "kernel": "k", "parameters": [{"name": "tile", "values": [32, 64]}],
    "constraints": [{"expr": "tile <= problem.most", "why": "fits"}]})json",
                                         "k.json");
  const Assignment environment{{"problem.least", Value::integer(1)}};
  const PointCheck check(file, environment);
  CHECK_THROWS_WITH_AS(check.is_legal({{"tile", Value::integer(32)}}, Rules::all),
                       doctest::Contains("k.json: constraints[0].expr: unknown name 'problem.most'"), BadInput);
}

}  // namespace moetune
