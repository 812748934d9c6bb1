// The two kinds of constraints, and the two parts of a configuration.
#include "search/rules.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "search/space.h"
#include "tests/refusal.h"
#include "tests/search/random_space.h"
#include "tests/texts.h"

using namespace moetune;

namespace {

const std::string kRules = R"json({
  "kernel": "toy",
  "parameters": [
    {"name": "tile", "values": [16, 32, 64]},
    {"name": "splits", "at": "launch", "values": [1, 2, 4]},
    {"name": "loader", "at": "compile", "values": ["plain", "tma"]}
  ],
  "constraints": [
    {"expr": "tile * splits <= 128", "why": "fits"},
    {"kind": "must", "expr": "loader == 'tma' || splits == 1", "why": "plain loads are not split"},
    {"kind": "useful", "expr": "tile * splits >= problem.least", "why": "few bytes under way"}
  ],
  "defaults": [{"config": {"tile": 16, "splits": 1, "loader": "plain"}},
               {"config": {"tile": 64, "splits": 2, "loader": "tma"}}]
})json";

Assignment least(std::int64_t bytes) { return {{"problem.least", Value::integer(bytes)}}; }

}  // namespace

TEST_CASE("a search holds to every rule, what is to run to those of must alone") {
  const Space space = Space::parse(kRules, "toy.json");
  const LegalSpace all = space.enumerate(least(64)), can_run = space.enumerate(least(64), Rules::must);
  CHECK(all.size() == 6);       // tile 64 plain, and five of tma
  CHECK(can_run.size() == 11);  // three plain ones, and tma with 3 + 3 + 2 splits
  CHECK(space.count(least(64), Rules::all) == 6);
  CHECK(space.count(least(64), Rules::must) == 11);
  for (ConfigId id = 0; id < all.size(); ++id) CHECK(can_run.find(all.config(id)).has_value());

  const Config small = space.parse_config("tile=16,splits=2,loader=tma");
  CHECK(space.why_illegal(small, least(64), Rules::must).empty());
  CHECK(space.why_illegal(small, least(64)) == "few bytes under way (useful: tile * splits >= problem.least)");
  const Config large = space.parse_config("tile=64,splits=4,loader=tma");
  CHECK(space.why_illegal(large, least(64), Rules::must) == "fits (must: tile * splits <= 128)");
  CHECK(space.why_empty(least(1000)).find("(useful: few bytes under way)") != std::string::npos);
}

TEST_CASE("what a rule of must leaves holds all that a search enumerates, in random spaces") {
  std::size_t fewer = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const RandomSpace random(seed);
    const std::string plain = random.json(), key = "{\"expr\"";
    std::string mixed = plain;  // every second constraint becomes a guess
    bool useful = false;
    for (std::size_t at = mixed.find(key); at != std::string::npos; at = mixed.find(key, at + 1)) {
      if (useful) mixed.insert(at + 1, "\"kind\": \"useful\", ");
      useful = !useful;
    }
    const Space space = Space::parse(mixed, "random.json");
    const LegalSpace all = space.enumerate(random.environment()),
                     can_run = space.enumerate(random.environment(), Rules::must);
    REQUIRE(all.size() == Space::parse(plain, "random.json").enumerate(random.environment()).size());
    REQUIRE(space.count(random.environment(), Rules::must) == can_run.size());
    fewer += all.size() < can_run.size();
    for (ConfigId id = 0; id < all.size(); id += 7) REQUIRE(can_run.find(all.config(id)).has_value());
    for (ConfigId id = 0; id < can_run.size(); id += 7) {
      const Config config = can_run.config(id);
      CHECK(space.why_illegal(config, random.environment(), Rules::must).empty());
      CHECK(space.why_illegal(config, random.environment()).empty() == all.find(config).has_value());
    }
  }
  CHECK(fewer >= 5);
}

TEST_CASE("a default is one that a search would ask if there is any, else one that can run") {
  const Space space = Space::parse(kRules, "toy.json");
  CHECK(space.default_config(least(1))->text() == "tile=16,splits=1,loader=plain");
  CHECK(space.default_config(least(64))->text() == "tile=64,splits=2,loader=tma");
  CHECK(space.default_config(least(1000))->text() == "tile=16,splits=1,loader=plain");
}

TEST_CASE("a configuration falls into what is compiled and what is passed at launch") {
  const Space space = Space::parse(kRules, "toy.json");
  const ConfigParts parts = split_config(space.parse_config("loader=tma,splits=2,tile=32"), space.parameters());
  CHECK(parts.compiled.text() == "tile=32,loader=tma");
  CHECK(parts.launch.text() == "splits=2");
  CHECK_THROWS_WITH_AS(split_config(Config{{"tile", Value::integer(16)}}, space.parameters()),
                       "parameter 'splits' has no value in 'tile=16'", BadInput);
  Config strange = space.parse_config("tile=16,splits=1,loader=plain");
  strange.set("colour", Value::integer(1));
  CHECK_THROWS_AS(split_config(strange, space.parameters()), BadInput);
}

TEST_CASE("an unknown kind or time names the nearest") {
  const auto error = [](const std::string& json) { return refusal_of([&] { Space::parse(json, "toy.json"); }); };
  CHECK(error(testing::replaced(kRules, "\"useful\"", "\"usefull\"")) ==
        "toy.json: constraints[2].kind: unknown kind 'usefull'; did you mean 'useful'?");
  CHECK(error(testing::replaced(kRules, "\"launch\"", "\"lunch\"")) ==
        "toy.json: parameters[1].at: unknown at 'lunch'; did you mean 'launch'?");
}
