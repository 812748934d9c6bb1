#include "ranges/expected_choices.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ranges/range_table.h"

using namespace moetune;

namespace {

ExpectedChoices sample_choices() {
  constexpr std::uint32_t none = ExpectedGrid::kNone;
  return {.configs = {"tile=16", "tile=32"},
          .grids = {{false, {{4, 8, 12}, {512, 1024}}, {0, 0, 0, 1, 1, none}}, {true, {{4}, {512}}, {1}}}};
}

}  // namespace

TEST_CASE("expected choices read back as they were written, equal ones in sequence once") {
  const ExpectedChoices expected = sample_choices();
  const nlohmann::ordered_json document = expected_json(expected);
  CHECK(document["grids"][0]["runs"].dump() == "[[0,3],[1,2],[-1,1]]");
  CHECK(parse_expected(nlohmann::json::parse(document.dump()), "a table") == expected);
  CHECK(expected.points() == 6);
  RangeTable table{.ranges = "batch=1..4", .bound = 0.02};
  CHECK(table.text().find("\"expected\"") == std::string::npos);
  table.expected = expected;
  CHECK(RangeTable::parse(table.text(), "a table") == table);
}

TEST_CASE("expected choices that cannot be are refused") {
  const auto broken = [](const auto& change) {
    nlohmann::json document = nlohmann::json::parse(expected_json(sample_choices()).dump());
    change(document);
    return document;
  };
  const std::vector<nlohmann::json> documents = {
      broken([](auto& d) {
        d["grids"][0]["axes"][0] = {4, 8, 8};
      }),
      broken([](auto& d) {
        d["grids"][0]["axes"][0] = {0, 8, 12};
      }),
      broken([](auto& d) { d["grids"][0]["axes"][0] = nlohmann::json::array(); }),
      broken([](auto& d) { d["grids"][0]["axes"] = nlohmann::json::array(); }),
      broken([](auto& d) {
        d["grids"][0]["axes"] = {{4}, {4}, {4}, {4}};
      }),
      broken([](auto& d) {
        nlohmann::json long_axis = nlohmann::json::array();
        for (int i = 1; i <= 129; ++i) long_axis.push_back(i);
        d["grids"][0]["axes"] = {long_axis};
      }),
      broken([](auto& d) {
        nlohmann::json axis = nlohmann::json::array();
        for (int i = 1; i <= 128; ++i) axis.push_back(i);
        d["grids"][0]["axes"] = {axis, axis, axis};  // two million points
      }),
      broken([](auto& d) { d["grids"][0]["runs"][0][0] = 2; }),
      broken([](auto& d) { d["grids"][0]["runs"][0][0] = -2; }),
      broken([](auto& d) { d["grids"][0]["runs"][0][1] = 4; }),
      broken([](auto& d) { d["grids"][0]["runs"][0][1] = 0; }),
      broken([](auto& d) { d["grids"][0]["runs"][0][1] = 1'000'000'000'000; }),
      broken([](auto& d) { d["grids"][0]["runs"].erase(2); }),
      broken([](auto& d) { d["grids"][0]["runs"] = 7; }),
      broken([](auto& d) { d["grids"][1]["uneven"] = false; }),
      broken([](auto& d) { d["grids"].push_back(d["grids"][0]); }),
      broken([](auto& d) { d["configs"] = std::vector<std::string>(1025, "tile=16"); })};
  for (const nlohmann::json& document : documents) {
    CAPTURE(document.dump().substr(0, 200));
    CHECK_THROWS_AS(parse_expected(document, "a table"), BadInput);
    // Within a table, what is no such document at all as well.
    nlohmann::json table = nlohmann::json::parse(RangeTable{.ranges = "batch=1..4"}.text());
    table["expected"] = document;
    CHECK_THROWS_AS(RangeTable::parse(table.dump(), "a table"), BadInput);
    table["expected"] = 3;
    CHECK_THROWS_AS(RangeTable::parse(table.dump(), "a table"), BadInput);
  }
}

TEST_CASE("points whose configuration is not kept are left to the nearest cell") {
  ExpectedChoices expected{.configs = {"unused", "a", "b"},
                           .grids = {{false, {{1, 2, 4}}, {1, 2, ExpectedGrid::kNone}}, {true, {{8}}, {2}}}};
  ExpectedChoices all = expected;
  all.keep([](const std::string&) { return true; });
  CHECK(all.configs == std::vector<std::string>{"a", "b"});
  CHECK(all.grids[0].choices == std::vector<std::uint32_t>{0, 1, ExpectedGrid::kNone});
  CHECK(all.grids[1].choices == std::vector<std::uint32_t>{1});
  expected.keep([](const std::string& config) { return config != "a"; });
  CHECK(expected.configs == std::vector<std::string>{"b"});
  CHECK(expected.grids[0].choices == std::vector<std::uint32_t>{ExpectedGrid::kNone, 0, ExpectedGrid::kNone});
  CHECK(expected.grids[1].choices == std::vector<std::uint32_t>{0});
  CHECK(expected.points() == 2);
}
