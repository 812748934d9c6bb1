// How a space file states defaults: bases, choices, and conditions through quantities.
#include <doctest/doctest.h>

#include "base/error.h"
#include "search/space.h"
#include "tests/refusal.h"
#include "tests/texts.h"

using namespace moetune;

namespace {

const std::string kDefaults = R"json({
  "kernel": "toy",
  "parameters": [
    {"name": "tile", "values": [16, 32, 64, 128]},
    {"name": "parts", "values": [1, 2, 3, 4, 6, 8]},
    {"name": "join", "values": ["none", "kernel"]}
  ],
  "let": {
    "tiles": "problem.rows / tile",
    "spare": "device.sm_count / problem.batch",
    "crowded": "spare < 2"
  },
  "constraints": [
    {"expr": "parts <= max(1, tiles)", "why": "a part has a tile"},
    {"expr": "(parts == 1) == (join == 'none')", "why": "parts are joined"}
  ],
  "bases": {
    "whole": {"parts": 1, "join": "none"},
    "cut": {"join": "kernel", "tile": 64}
  },
  "defaults": [
    {"doc": "no SM to spare", "when": "crowded", "like": "whole", "config": {"tile": 128}},
    {"like": "cut", "config": {"parts": {"at_most": "spare", "of": [4, 2, 8]}}},
    {"like": "whole", "config": {"tile": 16}}
  ]
})json";

Assignment shape(int batch, int rows, int sm_count = 16) {
  return {{"problem.rows", Value::integer(rows)},
          {"problem.batch", Value::integer(batch)},
          {"device.sm_count", Value::integer(sm_count)}};
}

std::string defaults_with(const std::string& from, const std::string& to) {
  return testing::replaced(kDefaults, from, to);
}

std::string default_text(const std::string& json, const Assignment& environment) {
  const std::optional<Config> config = Space::parse(json, "toy.json").default_config(environment);
  return config ? config->text() : "none";
}

std::string defaults_error(const std::string& from, const std::string& to) {
  return refusal_of([&] { Space::parse(defaults_with(from, to), "toy.json"); });
}

const std::string kChoice = R"({"at_most": "spare", "of": [4, 2, 8]})";

}  // namespace

TEST_CASE("a default takes from its base what it does not say itself, in the order of the parameters") {
  CHECK(default_text(kDefaults, shape(16, 1024)) == "tile=128,parts=1,join=none");
  CHECK(default_text(defaults_with("\"tile\": 128}", "\"tile\": 32, \"parts\": 2, \"join\": \"kernel\"}"),
                     shape(16, 1024)) == "tile=32,parts=2,join=kernel");
  std::string like_alone = defaults_with("\"tile\": 64}", "\"tile\": 64, \"parts\": 3}");
  const std::string config = ", \"config\": {\"parts\": " + kChoice + "}";
  like_alone.erase(like_alone.find(config), config.size());
  CHECK(default_text(like_alone, shape(2, 1024)) == "tile=64,parts=3,join=kernel");
}

TEST_CASE("a choice is the largest listed value within its limit, or of the domain where none are listed") {
  const std::string unlisted = defaults_with(kChoice, R"({"at_most": "spare"})");
  CHECK(default_text(kDefaults, shape(2, 1024)) == "tile=64,parts=8,join=kernel");
  CHECK(default_text(kDefaults, shape(1, 1024)) == "tile=64,parts=8,join=kernel");
  CHECK(default_text(kDefaults, shape(2, 1024, 14)) == "tile=64,parts=4,join=kernel");
  CHECK(default_text(unlisted, shape(2, 1024, 14)) == "tile=64,parts=6,join=kernel");
  CHECK(default_text(kDefaults, shape(2, 1024, 6)) == "tile=64,parts=2,join=kernel");
  CHECK(default_text(unlisted, shape(2, 1024, 6)) == "tile=64,parts=3,join=kernel");
}

TEST_CASE("a choice goes down to a legal value, and its rule is passed over where there is none") {
  const std::string unlisted = defaults_with(kChoice, R"({"at_most": "spare"})");
  CHECK(default_text(kDefaults, shape(2, 64 * 7)) == "tile=64,parts=4,join=kernel");
  CHECK(default_text(unlisted, shape(2, 64 * 7)) == "tile=64,parts=6,join=kernel");
  CHECK(default_text(kDefaults, shape(2, 64 * 3)) == "tile=64,parts=2,join=kernel");
  CHECK(default_text(kDefaults, shape(2, 64)) == "tile=16,parts=1,join=none");
}

TEST_CASE("a rule whose limit is below every value, or has none, is passed over") {
  CHECK(default_text(defaults_with("\"spare\", \"of\"", "\"1 - spare\", \"of\""), shape(2, 1024)) ==
        "tile=16,parts=1,join=none");
  // Without a batch `spare` has no value, nor has `crowded`.
  CHECK(default_text(kDefaults, shape(0, 1024)) == "tile=16,parts=1,join=none");
  const std::string last = ",\n    {\"like\": \"whole\", \"config\": {\"tile\": 16}}";
  CHECK(default_text(defaults_with(last, ""), shape(0, 1024)) == "none");
}

TEST_CASE("a gate may use a quantity of problem and device") {
  const std::string gated = defaults_with(R"("values": ["none", "kernel"])",
                                          R"("values": ["none", "kernel"], "gates": {"kernel": "spare >= 4"})");
  CHECK(default_text(gated, shape(2, 1024)) == "tile=64,parts=8,join=kernel");
  CHECK(default_text(gated, shape(8, 1024)) == "tile=16,parts=1,join=none");
  CHECK(default_text(kDefaults, shape(8, 1024)) == "tile=64,parts=2,join=kernel");
}

TEST_CASE("a mistake in an expression of a default is named with the file, the key and the expression") {
  CHECK(defaults_error("\"crowded\", \"like\"", "\"crowdd\", \"like\"") ==
        "toy.json: defaults[0].when: unknown name 'crowdd'; did you mean 'crowded'? (column 1 of \"crowdd\")");
  CHECK(defaults_error("\"crowded\", \"like\"", "\"crowded && tiles > 1\", \"like\"") ==
        "toy.json: defaults[0].when: 'tiles' is not allowed here: only problem.*, device.* and quantities of "
        "these, and it depends on parameters (column 12 of \"crowded && tiles > 1\")");
  CHECK(defaults_error("\"at_most\": \"spare\"", "\"at_most\": \"spare / tile\"") ==
        "toy.json: defaults[1].config.parts.at_most: 'tile' is not allowed here: only problem.*, device.* and "
        "quantities of these (column 9 of \"spare / tile\")");
  CHECK(defaults_error("\"at_most\": \"spare\"", "\"at_most\": \"spare /\"")
            .starts_with("toy.json: defaults[1].config.parts.at_most: "));
  CHECK(defaults_error("\"at_most\": \"spare\"", "\"at_most\": 4") ==
        "toy.json: defaults[1].config.parts.at_most: must be a string, not number");
  const Space space =
      Space::parse(defaults_with("\"at_most\": \"spare\"", "\"at_most\": \"problem.rowz\""), "toy.json");
  CHECK_THROWS_WITH_AS(space.default_config(shape(2, 1024)),
                       "toy.json: defaults[1].config.parts.at_most: unknown name 'problem.rowz'; did you mean "
                       "'problem.rows'? (column 1 of \"problem.rowz\")",
                       BadInput);
}

TEST_CASE("each wrong key or value of a default is named") {
  CHECK(defaults_error("\"at_most\": \"spare\"", "\"most\": \"spare\"")
            .starts_with("toy.json: defaults[1].config.parts.most: unknown key 'most'"));
  CHECK(defaults_error("\"at_most\": \"spare\", ", "") ==
        "toy.json: defaults[1].config.parts.at_most: this key is missing");
  CHECK(defaults_error("[4, 2, 8]", "[4, 5]")
            .starts_with("toy.json: defaults[1].config.parts.of: unknown value of parts '5'"));
  CHECK(defaults_error("[4, 2, 8]", "[]") == "toy.json: defaults[1].config.parts.of: the list is empty");
  CHECK(defaults_error("\"tile\": 128}", "\"tile\": 128, \"join\": {\"at_most\": \"1\"}}") ==
        "toy.json: defaults[0].config.join: 'at_most' needs a parameter of integers");
  CHECK(defaults_error("{\"parts\": {", "{\"tile\": {\"at_most\": \"64\"}, \"parts\": {") ==
        "toy.json: defaults[1].config.parts: only one parameter of a default may have an 'at_most'");
  CHECK(defaults_error("\"like\": \"cut\"", "\"like\": \"cutt\"") ==
        "toy.json: defaults[1].like: unknown base 'cutt'; did you mean 'cut'?");
  CHECK(defaults_error("\"tile\": 64}", "\"tilt\": 64}") ==
        "toy.json: bases.cut.tilt: unknown parameter 'tilt'; did you mean 'tile'?");
  CHECK(defaults_error("\"tile\": 64}", "\"tile\": 65}")
            .starts_with("toy.json: bases.cut.tile: unknown value of tile '65'"));
  CHECK(defaults_error("\"tile\": 64}", "\"tile\": {\"at_most\": \"64\"}}") ==
        "toy.json: bases.cut.tile: must be an integer or a string, not object");
  CHECK(defaults_error("\"bases\": {", "\"bases\": {\"idle\": {},") ==
        "toy.json: bases.idle: no default is like this base");
  CHECK(defaults_error("\"config\": {\"tile\": 16}", "\"config\": {}") ==
        "toy.json: defaults[2].config.tile: the default leaves this parameter without a value");
  CHECK(defaults_error(", \"config\": {\"tile\": 16}", "") ==
        "toy.json: defaults[2].config.tile: the default leaves this parameter without a value");
  CHECK(defaults_error("\"like\": \"cut\", \"config\"", "\"config\"") ==
        "toy.json: defaults[1].config.tile: the default leaves this parameter without a value");
  CHECK(defaults_error("\"doc\": \"no SM to spare\"", "\"doc\": 1") ==
        "toy.json: defaults[0].doc: must be a string, not number");
}
