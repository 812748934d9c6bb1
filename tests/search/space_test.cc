#include "search/space.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "tests/refusal.h"
#include "tests/texts.h"

using namespace moetune;

namespace {

const std::string kGood = R"json({
  "kernel": "toy",
  "parameters": [
    {"name": "tile", "values": [16, 32, 64, 128], "doc": "rows a block"},
    {"name": "stages", "values": [1, 2, 3]},
    {"name": "loader", "values": ["plain", "tma"], "gates": {"tma": "device.compute_capability >= 90"}}
  ],
  "let": {"bytes": "stages * row_bytes", "row_bytes": "tile * problem.width"},
  "constraints": [
    {"expr": "bytes <= device.shared_per_block", "why": "the stages fit shared memory"},
    {"expr": "loader != 'plain' || stages == 1", "why": "plain loads have no stages"},
    {"expr": "problem.rows % tile == 0", "why": "blocks are whole"}
  ],
  "defaults": [
    {"when": "device.compute_capability >= 90", "config": {"tile": 64, "stages": 3, "loader": "tma"}},
    {"config": {"tile": 32, "stages": 1, "loader": "plain"}}
  ]
})json";

Assignment environment(int capability, int rows = 128) {
  return {{"problem.rows", Value::integer(rows)},
          {"problem.width", Value::integer(2)},
          {"device.compute_capability", Value::integer(capability)},
          {"device.shared_per_block", Value::integer(400)}};
}

std::string error(const std::string& json) {
  return refusal_of([&] { Space::parse(json, "toy.json"); });
}

std::string error_after(const std::string& from, const std::string& to) {
  return error(testing::replaced(kGood, from, to));
}

}  // namespace

TEST_CASE("a space enumerates what its constraints and gates leave, in order") {
  const Space space = Space::parse(kGood, "toy.json");
  CHECK(space.kernel() == "toy");
  const LegalSpace modern = space.enumerate(environment(90));
  std::vector<std::string> texts;
  for (ConfigId id = 0; id < modern.size(); ++id) texts.push_back(modern.config(id).text());
  CHECK(texts == std::vector<std::string>{
                     "tile=16,stages=1,loader=plain", "tile=16,stages=1,loader=tma", "tile=16,stages=2,loader=tma",
                     "tile=16,stages=3,loader=tma", "tile=32,stages=1,loader=plain", "tile=32,stages=1,loader=tma",
                     "tile=32,stages=2,loader=tma", "tile=32,stages=3,loader=tma", "tile=64,stages=1,loader=plain",
                     "tile=64,stages=1,loader=tma", "tile=64,stages=2,loader=tma", "tile=64,stages=3,loader=tma",
                     "tile=128,stages=1,loader=plain", "tile=128,stages=1,loader=tma"});
  CHECK(space.enumerate(environment(80)).size() == 4);
  CHECK(space.enumerate(environment(90, 7)).empty());
}

TEST_CASE("the default is the first whose condition holds and that is legal") {
  const Space space = Space::parse(kGood, "toy.json");
  CHECK(space.default_config(environment(90))->text() == "tile=64,stages=3,loader=tma");
  CHECK(space.default_config(environment(80))->text() == "tile=32,stages=1,loader=plain");
  CHECK(space.default_config(environment(90, 32))->text() == "tile=32,stages=1,loader=plain");
  CHECK_FALSE(space.default_config(environment(90, 16)));
}

TEST_CASE("an illegal configuration says which rule it breaks") {
  const Space space = Space::parse(kGood, "toy.json");
  const auto why = [&](const std::string& text, int capability) {
    return space.why_illegal(space.parse_config(text), environment(capability));
  };
  CHECK(why("tile=64,stages=3,loader=tma", 90).empty());
  CHECK(why("tile=64,stages=3,loader=tma", 80) == "loader=tma needs device.compute_capability >= 90");
  CHECK(why("tile=128,stages=2,loader=tma", 90) ==
        "the stages fit shared memory (must: bytes <= device.shared_per_block)");
  CHECK(why("tile=16,stages=2,loader=plain", 90) ==
        "plain loads have no stages (must: loader != 'plain' || stages == 1)");
  CHECK(space.why_illegal({{"tile", Value::integer(48)}, {"stages", Value::integer(1)}}, environment(90)) ==
        "tile=48 is not in the parameter's domain");
  CHECK(space.why_illegal({{"tile", Value::integer(16)}}, environment(90)) == "parameter 'stages' has no value");
  Config more = space.parse_config("tile=64,stages=3,loader=tma");
  more.set("unroll", Value::integer(1));
  CHECK(space.why_illegal(more, environment(90)) == "it has parameters that the space does not know");
}

TEST_CASE("configuration text is checked against the space and completed from a base") {
  const Space space = Space::parse(kGood, "toy.json");
  const Config base = *space.default_config(environment(90));
  CHECK(space.parse_config("stages=2", &base).text() == "tile=64,stages=2,loader=tma");
  CHECK_THROWS_WITH_AS(space.parse_config("stage=2", &base), "unknown parameter 'stage'; did you mean 'stages'?",
                       BadInput);
  CHECK_THROWS_WITH_AS(space.parse_config("loader=tna", &base), "unknown value of loader 'tna'; did you mean 'tma'?",
                       BadInput);
  CHECK_THROWS_AS(space.parse_config("tile=33", &base), BadInput);
  CHECK_THROWS_WITH_AS(space.parse_config("tile=16,stages=1"), "parameter 'loader' has no value in 'tile=16,stages=1'",
                       BadInput);
}

TEST_CASE("a name that problem and device lack is an error with the nearest that they have") {
  const Space space = Space::parse(testing::replaced(kGood, "problem.rows % tile", "problem.rowz % tile"), "toy.json");
  CHECK_THROWS_WITH_AS(space.enumerate(environment(90)),
                       "toy.json: constraints[2].expr: unknown name 'problem.rowz'; did you mean 'problem.rows'? "
                       "(column 1 of \"problem.rowz % tile == 0\")",
                       BadInput);
  CHECK_THROWS_AS(Space::parse(kGood, "toy.json").enumerate({}), BadInput);
}

TEST_CASE("named problem dimensions compare with names, and only so") {
  const Space space = Space::parse(
      testing::replaced(kGood, "problem.rows % tile == 0", "problem.dtype == 'bf16' || tile == 16"), "toy.json");
  Assignment names = environment(80);
  names.set("problem.dtype", Value::named("fp16", 1));
  CHECK(space.enumerate(names).size() == 1);
  names.set("problem.dtype", Value::named("bf16", 0));
  CHECK(space.enumerate(names).size() == 4);
  names.set("problem.dtype", Value::integer(1));
  CHECK_THROWS_WITH_AS(space.enumerate(names),
                       "toy.json: constraints[2].expr: 'bf16' is a name and 'problem.dtype' is a number (column 15 of "
                       "\"problem.dtype == 'bf16' || tile == 16\")",
                       BadInput);
}

TEST_CASE("what is not JSON is located by line and column") {
  CHECK(error("{\"kernel\": \"toy\",\n \"parameters\" [}").starts_with("toy.json: parse error at line 2, column 15"));
  CHECK(error("[]") == "toy.json: the document must be an object, not array");
  CHECK(error_after("\"stages\", \"values\"", "\"stages\", \"name\": \"x\", \"values\"") ==
        "toy.json: the key 'name' occurs twice in one object, at line 5");
  CHECK(error_after("\"bytes\": \"stages", "\"row_bytes\": \"1\", \"bytes\": \"stages") ==
        "toy.json: the key 'row_bytes' occurs twice in one object, at line 8");
}

TEST_CASE("each wrong key or value of a space file is named") {
  CHECK(error_after("\"kernel\": \"toy\",", "") == "toy.json: kernel: this key is missing");
  CHECK(error_after("\"let\"", "\"lets\"") == "toy.json: lets: unknown key 'lets'; did you mean 'let'?");
  CHECK(error_after("\"doc\"", "\"docs\"") == "toy.json: parameters[0].docs: unknown key 'docs'; did you mean 'doc'?");
  CHECK(error_after("\"name\": \"stages\"", "\"name\": \"tile\"") ==
        "toy.json: parameters[1].name: 'tile' is declared twice");
  CHECK(error_after("\"name\": \"stages\"", "\"name\": \"2x\"") ==
        "toy.json: parameters[1].name: '2x' is not a name (letters, digits and _)");
  CHECK(error_after("\"name\": \"stages\"", "\"name\": \"log2\"") ==
        "toy.json: parameters[1].name: 'log2' already means something in expressions");
  CHECK(error_after("[1, 2, 3]", "[]") == "toy.json: parameters[1].values: the domain of 'stages' is empty");
  CHECK(error_after("[1, 2, 3]", "[1, 2, 1]") ==
        "toy.json: parameters[1].values[2]: the domain of 'stages' holds 1 twice");
  CHECK(error_after("[1, 2, 3]", "[1, \"two\"]") ==
        "toy.json: parameters[1].values[1]: the domain of 'stages' mixes integers and names");
  CHECK(error_after("[1, 2, 3]", "[1.5]").starts_with("toy.json: parameters[1].values[0]: 1.5 is neither"));
  CHECK(error_after("[1, 2, 3]", "[\"a,b\"]").starts_with("toy.json: parameters[1].values[0]: \"a,b\" is neither"));
  for (const char* number : {"9223372036854775807", "-9223372036854775807", "18446744073709551615"})
    CHECK(error_after("[1, 2, 3]", std::string("[") + number + "]").ends_with("is beyond 2^62"));
  CHECK(error_after("[1, 2, 3]", "3") == "toy.json: parameters[1].values: must be an array, not number");
  CHECK(error_after("{\"tma\": \"device", "{\"tna\": \"device") ==
        "toy.json: parameters[2].gates.tna: unknown value of loader 'tna'; did you mean 'tma'?");
  CHECK(error_after("\"device.compute_capability >= 90\"}", "\"tile >= 90\"}") ==
        "toy.json: parameters[2].gates.tma: 'tile' is not allowed here: only problem.*, device.* and "
        "quantities "
        "of these (column 1 of \"tile >= 90\")");
  CHECK(error_after("tile * problem.width", "tile * bytes") ==
        "toy.json: let.bytes: quantities that need each other: bytes -> row_bytes -> bytes");
  CHECK(error_after("\"let\": {", "\"let\": {\"idle\": \"tile\", ") ==
        "toy.json: let.idle: nothing uses this quantity");
  CHECK(error_after("\"let\": {", "\"let\": {\"tile\": \"1\", ") == "toy.json: let.tile: 'tile' is declared twice");
  CHECK(error_after("\"blocks are whole\"", "\"\"") ==
        "toy.json: constraints[2].why: say why configurations that break this do not work");
  CHECK(error_after("problem.rows % tile == 0", "1 == 1") ==
        "toy.json: constraints[2].expr: the constraint names nothing");
  CHECK(error_after("problem.rows % tile == 0", "problem.rows % tiel == 0") ==
        "toy.json: constraints[2].expr: unknown name 'tiel'; did you mean 'tile'? (column 16 of "
        "\"problem.rows % tiel == 0\")");
  CHECK(error_after("\"tile\": 64, \"stages\"", "\"tile\": 64, \"stage\": 3, \"stages\"") ==
        "toy.json: defaults[0].config.stage: unknown parameter 'stage'; did you mean 'stages'?");
  CHECK(error_after("\"tile\": 64, \"stages\"", "\"stages\"") ==
        "toy.json: defaults[0].config.tile: the default leaves this parameter without a value");
  CHECK(error_after("\"tile\": 64, \"stages\"", "\"tile\": 65, \"stages\"")
            .starts_with("toy.json: defaults[0].config.tile: unknown value of tile '65'"));
}
