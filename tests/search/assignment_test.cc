#include "search/assignment.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "base/error.h"
#include "search/outcome.h"

using namespace moetune;

TEST_CASE("an assignment keeps its order and its text is canonical") {
  Assignment a{{"tile", Value::integer(-64)}, {"loader", Value::named("tma", 1)}};
  CHECK(a.text() == "tile=-64,loader=tma");
  a.set("tile", Value::integer(32));
  a.set("stages", Value::integer(3));
  CHECK(a.text() == "tile=32,loader=tma,stages=3");
  CHECK(a.number("stages") == 3);
  CHECK(a.is("loader", "tma"));
  CHECK_FALSE(a.is("loader", "plain"));
  CHECK(a.find("none") == nullptr);
  CHECK_THROWS_WITH_AS(a.at("none"), "no 'none' in 'tile=32,loader=tma,stages=3'", std::out_of_range);
}

TEST_CASE("assignment text splits into names and values, blanks aside") {
  const auto pieces = split_assignment(" a = 1 ,b=tma", "the configuration");
  REQUIRE(pieces.size() == 2);
  CHECK(pieces[0] == std::pair<std::string, std::string>("a", "1"));
  CHECK(pieces[1] == std::pair<std::string, std::string>("b", "tma"));
  CHECK(split_assignment("", "the configuration").empty());
  CHECK(split_assignment("  ", "the configuration").empty());
}

TEST_CASE("a piece that is not name=value is named, as is a name that occurs twice") {
  CHECK_THROWS_WITH_AS(split_assignment("a=1,b", "its problem"), "its problem: 'b' is not name=value", BadInput);
  CHECK_THROWS_WITH_AS(split_assignment("a=", "its problem"), "its problem: 'a=' is not name=value", BadInput);
  CHECK_THROWS_WITH_AS(split_assignment("=1", "its problem"), "its problem: '=1' is not name=value", BadInput);
  CHECK_THROWS_WITH_AS(split_assignment("a=1,", "its problem"), "its problem: '' is not name=value", BadInput);
  CHECK_THROWS_WITH_AS(split_assignment("a=1,a=2", "its problem"), "its problem: 'a' occurs twice", BadInput);
}

TEST_CASE("every outcome has a name of its own that reads back") {
  for (const Outcome outcome : kOutcomes) CHECK(outcome_from_name(outcome_name(outcome)) == outcome);
  CHECK_FALSE(outcome_from_name("fine"));
  CHECK(has_time(Outcome::too_slow));
  CHECK_FALSE(has_time(Outcome::timed_out));
}
