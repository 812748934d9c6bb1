#include <doctest/doctest.h>

#include "search/enumerate.h"
#include "search/space.h"

using namespace moetune;

namespace {

Space space_with(const std::string& constraints, const std::string& let = "{}") {
  return Space::parse(R"json({
    "kernel": "toy",
    "parameters": [
      {"name": "tile", "values": [16, 32, 64]},
      {"name": "stages", "values": [1, 2]},
      {"name": "loader", "values": ["plain", "tma"], "gates": {"tma": "device.capability >= 90"}}
    ],
    "let": )json" + let + R"json(,
    "constraints": [)json" +
                          constraints + "]}",
                      "toy.json");
}

Assignment rows_on(int rows, int capability = 90) {
  return {{"problem.rows", Value::integer(rows)}, {"device.capability", Value::integer(capability)}};
}

bool says(const std::string& sentence, const std::string& part) { return sentence.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a space with a legal configuration has nothing to explain") {
  CHECK(space_with(R"({"expr": "tile <= problem.rows", "why": "fits"})").why_empty(rows_on(16)) == "");
}

TEST_CASE("a constraint without a value anywhere is named with that, its count and what it read") {
  const Space space = space_with(R"({"expr": "tile * stages / problem.rows < 9", "why": "fits"})");
  CHECK(space.why_empty(rows_on(0)) ==
        "\"tile * stages / problem.rows < 9\" (must: fits) rejected 6 partial assignments, without a value "
        "(a division by zero, log2 of less than 1, or an overflow), with problem.rows=0");
  CHECK(space.why_illegal(
            {{"tile", Value::integer(16)}, {"stages", Value::integer(1)}, {"loader", Value::named("tma", 1)}},
            rows_on(0)) ==
        "fits (must: tile * stages / problem.rows < 9, which has no value here: a division by zero, log2 of "
        "less "
        "than 1, or an overflow)");
}

TEST_CASE("values that a constraint reads through lets are named too") {
  const Space space = space_with(R"({"expr": "bytes > 0 && stages > 0", "why": "positive"})",
                                 R"({"bytes": "tile * row", "row": "100 / problem.rows"})");
  const std::string why = space.why_empty(rows_on(0));
  CHECK(says(why, "without a value"));
  CHECK(says(why, "with problem.rows=0"));
}

TEST_CASE("lets that read each other many times over are entered once each") {
  std::string lets = R"({"q0": "problem.rows", "q1": "problem.rows")";
  for (int i = 2; i < 64; ++i)
    lets += ", \"q" + std::to_string(i) + "\": \"q" + std::to_string(i - 1) + " - q" + std::to_string(i - 2) + "\"";
  const Space space = space_with(R"({"expr": "q63 > 0 && tile < 0", "why": "positive"})", lets + "}");
  CHECK(says(space.why_empty(rows_on(7)), "problem.rows=7"));
}

TEST_CASE("constraints that reject together are all named, the one that rejects most first") {
  const Space space = space_with(R"({"expr": "tile * stages > problem.rows", "why": "big"},
                                    {"expr": "tile * stages <= 32 && stages <= 2", "why": "small"})");
  const std::string why = space.why_empty(rows_on(32));
  CHECK(says(why, "(must: big) rejected"));
  CHECK(says(why, "(must: small) rejected"));
  EnumerationStats stats;
  CHECK(space.enumerate(rows_on(32), Rules::all, &stats).empty());
  REQUIRE(stats.rejections.size() == 2);
  CHECK(stats.rejections[0].total + stats.rejections[1].total == 6);
  CHECK(stats.rejections[0].total == 3);  // 16, 32 and 32 are not above 32
  CHECK((why.find("big)") < why.find("small)")) == (stats.rejections[0].total >= stats.rejections[1].total));
}

TEST_CASE("constraints on one parameter, on none, and gates are told in their own terms") {
  CHECK(space_with(R"({"expr": "tile > problem.rows", "why": "big"})").why_empty(rows_on(64)) ==
        "\"tile > problem.rows\" (must: big) rejected 3 of the 3 values of tile, with problem.rows=64");
  const std::string none = space_with(R"({"expr": "tile > 16", "why": "big"},
                                         {"expr": "problem.rows > 1", "why": "rows"})")
                               .why_empty(rows_on(1));
  CHECK(none.starts_with("\"problem.rows > 1\" (must: rows) rejects every configuration, with problem.rows=1; "));
  const Space gated = Space::parse(R"json({"kernel": "toy", "parameters": [
      {"name": "loader", "values": ["tma"], "gates": {"tma": "device.capability >= 90"}}]})json",
                                   "toy.json");
  CHECK(gated.why_empty(rows_on(1, 80)) == "the gates of loader close all its values");
}

TEST_CASE("undefined for some assignments only is told with how many") {
  const Space space = space_with(R"({"expr": "64 / (tile - 16) * stages > 100", "why": "large"})");
  CHECK(says(space.why_empty(rows_on(1)), "rejected 6 partial assignments, without a value for 2 of them"));
}
