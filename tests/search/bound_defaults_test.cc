#include "search/bound_defaults.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "search/space.h"
#include "tests/search/random_space.h"

namespace moetune {
namespace {

// A random space with defaults: single configurations, and some that choose a value of p0, or have no bound for it.
std::string with_defaults(const RandomSpace& space, Random& draw) {
  std::string text = space.json();
  text.pop_back();
  text += ", \"defaults\": [";
  const std::size_t count = 2 + draw.below(5);
  for (std::size_t rule = 0; rule < count; ++rule) {
    text += rule > 0 ? ", {" : "{";
    if (draw.below(2) == 0) {
      const std::string least = std::to_string(draw.below(20));
      text += "\"when\": \"problem.x >= " + least + (draw.below(3) == 0 ? " / device.y\", " : "\", ");
    }
    text += "\"config\": {";
    for (std::size_t p = 0; p < space.domains.size(); ++p) {
      text += (p > 0 ? ", \"p" : "\"p") + std::to_string(p) + "\": ";
      if (p == 0 && draw.below(2) == 0)
        text += "{\"at_most\": \"problem.x / (device.y / 4)\"}";
      else
        text += std::to_string(space.domains[p][draw.below(space.domains[p].size())]);
    }
    text += "}}";
  }
  return text + "]}";
}

Assignment with_x(Assignment environment, std::int64_t x) {
  environment.set("problem.x", Value::integer(x));
  return environment;
}

}  // namespace

TEST_CASE("on random spaces bound defaults are the space's defaults") {
  std::size_t found = 0, none = 0, running = 0, forbidden = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const RandomSpace random(seed);
    Random draw(seed);
    const std::string json = with_defaults(random, draw);
    CAPTURE(json);
    const Space space = Space::parse(json, "random.json");
    const bool both = draw.below(2) == 0;
    std::vector<std::string> varying = {"problem.x", "problem.unused"};
    if (both) varying.push_back("device.y");
    const auto bound = space.bind_defaults(random.environment(), varying);
    for (int i = 0; i < 40; ++i) {
      Assignment environment = with_x(random.environment(), static_cast<std::int64_t>(draw.below(30)) - 3);
      std::vector<std::int64_t> values{environment.number("problem.x"), i};
      if (both) {
        environment.set("device.y", Value::integer(static_cast<std::int64_t>(draw.below(20))));
        values.push_back(environment.number("device.y"));
      }
      const std::optional<Config> expected = space.default_config(environment);
      const std::optional<std::uint32_t> config = bound->find(values);
      REQUIRE(config.has_value() == expected.has_value());
      if (config) REQUIRE(bound->configs()[*config].text() == expected->text());
      (config ? found : none) += 1;
      Config any;
      for (std::size_t p = 0; p < random.domains.size(); ++p)
        any.set("p" + std::to_string(p), Value::integer(random.domains[p][draw.below(random.domains[p].size())]));
      const bool can_run = bound->can_run(any, values);
      REQUIRE(can_run == space.why_illegal(any, environment, Rules::must).empty());
      (can_run ? running : forbidden) += 1;
    }
  }
  CHECK(found > 1000);
  CHECK(none > 1000);
  CHECK(running > 1000);
  CHECK(forbidden > 1000);
}

TEST_CASE("on random spaces the defaults within bounds are all that are there, and few more") {
  std::size_t ones = 0, spans = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const RandomSpace random(seed);
    Random draw(seed);
    const Space space = Space::parse(with_defaults(random, draw), "random.json");
    const auto bound = space.bind_defaults(random.environment(), {"problem.x", "device.y"});
    for (int i = 0; i < 10; ++i) {
      const auto x = static_cast<std::int64_t>(draw.below(30)) - 3, y = static_cast<std::int64_t>(draw.below(20));
      const std::int64_t low[] = {x, y};
      const std::int64_t high[] = {x + static_cast<std::int64_t>(draw.below(6)),
                                   y + static_cast<std::int64_t>(draw.below(3))};
      const BoundDefaults::Possible possible = bound->find_within(low, high);
      for (std::int64_t there = low[0]; there <= high[0]; ++there) {
        for (std::int64_t beside = low[1]; beside <= high[1]; ++beside) {
          const std::int64_t values[] = {there, beside};
          const std::optional<std::uint32_t> config = bound->find(values);
          if (config)
            REQUIRE(std::ranges::find(possible.configs, *config) != possible.configs.end());
          else
            REQUIRE(possible.none);
        }
      }
      const BoundDefaults::Possible point = bound->find_within(low, low);
      REQUIRE(point.is_one());
      REQUIRE(point.none == !bound->find(low));
      if (possible.is_one()) ++ones;
      ++spans;
    }
  }
  CHECK(ones > spans / 3);
}

TEST_CASE("where a bound may have no value the next default is possible too") {
  const Space space = Space::parse(R"json({
    "kernel": "k", "parameters": [{"name": "tile", "values": [16, 64]}],
    "defaults": [{"config": {"tile": {"at_most": "max(problem.x / problem.y, 64)"}}}, {"config": {"tile": 16}}]})json",
                                   "k.json");
  const auto bound = space.bind_defaults({{"problem.x", Value::integer(64)}, {"problem.y", Value::integer(1)}},
                                         {"problem.x", "problem.y"});
  const std::int64_t low[] = {64, 0}, high[] = {64, 1};
  CHECK(bound->configs()[*bound->find(low)].text() == "tile=16");
  CHECK(bound->configs()[*bound->find(high)].text() == "tile=64");
  CHECK(bound->find_within(high, high).is_one());
  const std::vector<std::uint32_t> possible = bound->find_within(low, high).configs;
  CHECK(std::ranges::find(possible, *bound->find(low)) != possible.end());
}

TEST_CASE("a name that is so many times another is never asked for, and their quotient is known") {
  const Space space = Space::parse(R"json({
    "kernel": "k", "parameters": [{"name": "tile", "values": [32, 64, 128]}],
    "defaults": [{"when": "problem.q / problem.kv != 4", "config": {"tile": 32}},
                 {"when": "problem.q >= 32", "config": {"tile": 128}}, {"config": {"tile": 64}}]})json",
                                   "k.json");
  const auto bound = space.bind_defaults({{"problem.q", Value::integer(4)}, {"problem.kv", Value::integer(1)}},
                                         {"problem.kv"}, "problem.q", "problem.kv", 4);
  CHECK(bound->configs().size() == 2);  // not the first rule's
  for (const std::int64_t heads : {1, 7, 8, 9})
    CHECK(bound->configs()[*bound->find({&heads, 1})].text() == (heads >= 8 ? "tile=128" : "tile=64"));
}

TEST_CASE("names of the environment vary as numbers do, quoted or not") {
  const Space space = Space::parse(R"json({
    "kernel": "k", "parameters": [{"name": "tile", "values": [32, 64, 128]}],
    "constraints": [{"expr": "tile < 128 || problem.layout == problem.other", "why": "w"}],
    "defaults": [{"when": "problem.lengths == 'ragged'", "config": {"tile": 32}},
                 {"config": {"tile": 128}}, {"config": {"tile": 64}}]})json",
                                   "k.json");
  const auto named = [](const char* name) { return Value::named(name, 0); };
  const Assignment first{
      {"problem.lengths", named("full")}, {"problem.layout", named("a")}, {"problem.other", named("b")}};
  const auto bound = space.bind_defaults(first, {"problem.lengths", "problem.layout"});
  for (const char* lengths : {"full", "ragged", "of another kind"}) {
    for (const char* layout : {"a", "b", "c"}) {
      const std::int64_t values[] = {bound->number(named(lengths)), bound->number(named(layout))};
      const Assignment environment{
          {"problem.lengths", named(lengths)}, {"problem.layout", named(layout)}, {"problem.other", named("b")}};
      CHECK(bound->configs()[*bound->find(values)].text() == space.default_config(environment)->text());
    }
  }
}

TEST_CASE("bound defaults refuse a name that the environment lacks") {
  const Space space = Space::parse(R"json({
    "kernel": "k", "parameters": [{"name": "tile", "values": [32, 64]}],
    "constraints": [{"expr": "tile <= problem.most", "why": "fits"}],
    "defaults": [{"config": {"tile": 32}}]})json",
                                   "k.json");
  CHECK_THROWS_WITH_AS(space.bind_defaults({{"problem.least", Value::integer(1)}}, {"problem.least"}),
                       doctest::Contains("k.json: constraints[0].expr: unknown name 'problem.most'"), BadInput);
}

}  // namespace moetune
