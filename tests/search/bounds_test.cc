// Spaces and texts that nobody would write for use: refused in a moment, with a reason.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "search/assignment.h"
#include "search/bound_space.h"
#include "search/enumerate.h"
#include "search/space.h"
#include "tests/refusal.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

Json space_of(std::size_t parameters, int values) {
  std::vector<int> domain;
  for (int value = 1; value <= values; ++value) domain.push_back(value);
  Json space = {{"kernel", "k"}, {"parameters", Json::array()}};
  for (std::size_t p = 0; p < parameters; ++p)
    space["parameters"].push_back({{"name", "p" + std::to_string(p)}, {"values", domain}});
  return space;
}

std::string refusal(const Json& space) {
  return refusal_of([&] { Space::parse(space.dump(), "k.json").count(Assignment(), Rules::all); });
}

}  // namespace

TEST_CASE("a space that no walk would end of is refused") {
  Json space = space_of(8, 60'000);
  std::string sum;
  for (int p = 0; p < 8; ++p) sum += (p > 0 ? " + p" : "p") + std::to_string(p);
  space["constraints"] = {{{"expr", sum + " == 0"}, {"why", "never"}}};
  const SpaceFile file = read_space_file(space.dump(), "k.json");
  const BoundSpace bound(file, Assignment(), Rules::all);
  CHECK_THROWS_WITH_AS(count_rows(bound, 1'000'000),
                       "k.json: more than 1000000 combinations to try; add constraints on fewer parameters, or "
                       "drop values",
                       BadInput);
  CHECK(kMaxNodes <= 200'000'000);  // a few seconds of walking

  const SpaceFile small = read_space_file(space_of(2, 20).dump(), "k.json");
  const BoundSpace whole(small, Assignment(), Rules::all);
  constexpr std::uint64_t kNodes = 20 + 20 * 20;
  CHECK(count_rows(whole, kNodes) == 400);
  CHECK_THROWS_AS(count_rows(whole, kNodes - 1), BadInput);
}

TEST_CASE("a walk that is short in combinations but long in what it evaluates is refused") {
  Json space = space_of(2, 2000);
  std::string sum = "p0 + p1";
  for (int i = 0; i < 500; ++i) sum += " + p0";
  space["constraints"] = {{{"expr", sum + " == 0"}, {"why", "never"}}};
  const SpaceFile file = read_space_file(space.dump(), "k.json");
  const BoundSpace bound(file, Assignment(), Rules::all);
  CHECK_THROWS_WITH_AS(count_rows(bound, 5'000'000),
                       "k.json: its expressions take too long to evaluate for all combinations; shorten them, add "
                       "constraints on fewer parameters, or drop values",
                       BadInput);
}

TEST_CASE("chained quantities, rules, parameters and names are bounded") {
  Json chained = space_of(1, 2), ruled = space_of(1, 2), named = space_of(1, 2);
  for (int i = 0; i < 100'000; ++i)
    chained["let"]["l" + std::to_string(i)] = i == 0 ? "p0" : "l" + std::to_string(i - 1);
  CHECK(refusal(chained) == "k.json: let: more than 1024 entries");
  for (int i = 0; i < 2000; ++i) ruled["constraints"].push_back({{"expr", "p0 > 0"}, {"why", "w"}});
  CHECK(refusal(ruled) == "k.json: constraints: more than 1024 entries");
  CHECK(refusal(space_of(129, 1)) == "k.json: parameters: more than 128 entries");
  named["parameters"][0]["values"] = Json::array();
  for (int i = 0; i < 5000; ++i) named["parameters"][0]["values"].push_back("v" + std::to_string(i));
  CHECK(refusal(named) == "k.json: parameters: more than 4096 values that are names");
  Json large = space_of(1, 1);
  large["doc"] = std::string(5 << 20, 'x');
  CHECK(refusal(large) == "k.json is larger than 4 MiB");
  large["doc"] = Json::parse(std::string(1000, '[') + std::string(1000, ']'));
  CHECK(refusal(large) == "k.json: its JSON is nested more than 64 deep");
}

TEST_CASE("a long list of values is split in linear time, a longer one refused") {
  std::string text;
  for (int i = 0; text.size() < 60'000; ++i) text += (i > 0 ? ",d" : "d") + std::to_string(i) + "=1";
  CHECK(split_assignment(text, "its problem").size() > 7000);
  CHECK_THROWS_WITH_AS(split_assignment(text + text + text, "its problem"),
                       "its problem: the text is longer than 65536 characters", BadInput);
}

}  // namespace moetune
