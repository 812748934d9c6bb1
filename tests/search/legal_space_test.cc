#include "search/legal_space.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/error.h"

using namespace moetune;

namespace {

// tile in {1, 4, 2} (not sorted), loader in {plain, tma}; all but tile=2,loader=plain.
LegalSpace small_space() {
  return LegalSpace({{"tile", {Value::integer(1), Value::integer(4), Value::integer(2)}, ""},
                     {"loader", {Value::named("plain", 0), Value::named("tma", 1)}, ""}},
                    {0, 0, 0, 1, 1, 0, 1, 1, 2, 1});
}

}  // namespace

TEST_CASE("a row becomes its configuration and the configuration its row") {
  const LegalSpace space = small_space();
  REQUIRE(space.size() == 5);
  CHECK(space.cartesian_size() == 6);
  CHECK(space.config(4).text() == "tile=2,loader=tma");
  for (ConfigId id = 0; id < space.size(); ++id) {
    CHECK(space.find(space.config(id)) == id);
    CHECK(space.find(space.point(id)) == id);
  }
}

TEST_CASE("a configuration is found in any order of names, and not when it is illegal, short or foreign") {
  const LegalSpace space = small_space();
  CHECK(space.find(Config{{"loader", Value::named("tma", 0)}, {"tile", Value::integer(4)}}) == 3);
  CHECK_FALSE(space.find(Config{{"tile", Value::integer(2)}, {"loader", Value::named("plain", 0)}}));
  CHECK_FALSE(space.find(Config{{"tile", Value::integer(3)}, {"loader", Value::named("tma", 1)}}));
  CHECK_FALSE(space.find(Config{{"tile", Value::integer(4)}, {"loader", Value::integer(1)}}));
  CHECK_FALSE(space.find(Config{{"tile", Value::integer(4)}}));
  CHECK_FALSE(space.find(Config{{"tile", Value::integer(4)}, {"stages", Value::integer(1)}}));
}

TEST_CASE("neighbours differ in one parameter, by any amount, in the order of values") {
  const LegalSpace space = small_space();
  const ConfigId one = *space.find(Config{{"tile", Value::integer(1)}, {"loader", Value::named("tma", 1)}});
  const ConfigId two = 4;
  const ConfigId four = 3;
  CHECK(space.neighbours(one) == std::vector<ConfigId>{two, four, 0});
  for (ConfigId a = 0; a < space.size(); ++a) {
    const std::vector<ConfigId> around = space.neighbours(a);
    for (ConfigId b = 0; b < space.size(); ++b)
      CHECK(space.are_neighbours(a, b) == (std::find(around.begin(), around.end(), b) != around.end()));
  }
}

TEST_CASE("rows that are unsorted, repeated, ragged or outside their domain are refused") {
  const std::vector<Parameter> one = {{"a", {Value::integer(1), Value::integer(2)}, ""}};
  CHECK_THROWS_AS(LegalSpace(one, {1, 0}), BadInput);
  CHECK_THROWS_AS(LegalSpace(one, {0, 0}), BadInput);
  CHECK_THROWS_AS(LegalSpace(one, {2}), BadInput);
  std::vector<Parameter> two = one;
  two.push_back(one[0]);
  CHECK_THROWS_AS(LegalSpace(two, {0, 1, 0}), BadInput);
  CHECK_THROWS_AS(LegalSpace({}, {}), BadInput);
  CHECK(LegalSpace(one, {}).empty());
}

TEST_CASE("a text becomes a point of the domains, legal or not, and the nearest configuration is found") {
  const LegalSpace space = small_space();
  CHECK(space.point_of("tile=2,loader=plain") == std::vector<Position>{2, 0});
  CHECK_FALSE(space.point_of("tile=3,loader=plain"));
  CHECK_FALSE(space.point_of("tile=2"));
  CHECK_FALSE(space.point_of("loader=plain,tile=2"));
  CHECK_FALSE(space.point_of("size=2,loader=plain"));  // a value of the domain in that place, by another name
  Random random(1);
  CHECK(space.nearest(space.point(3), random) == 3);
  const std::vector<Position> illegal = {2, 0};
  std::set<std::string> drawn;
  for (int i = 0; i < 50; ++i) drawn.insert(space.config(space.nearest(illegal, random)).text());
  CHECK(drawn == std::set<std::string>{"tile=1,loader=plain", "tile=2,loader=tma", "tile=4,loader=plain"});
}
