#include "jobs/range/state.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

using namespace moetune;

TEST_CASE("progress is read as it was written, and refused if one of its times is none") {
  const RangeState state{
      .ranges = "tokens=1..8",
      .cubins = {"a", "b"},
      .idle = 3,
      .filled = {"a"},
      .taken_over = 1,
      .cells = {{.problem = "tokens=1",
                 .searched = true,
                 .cubins = {{"a", {"a,x=1", 4}}, {"b", {}}},
                 .measured_default = MeasuredConfig{"d", 5},
                 .default_cubin = "d",
                 .judged = "j"},
                {.problem = "tokens=8", .contended = true, .unreachable = "too little memory"}},
      .shapes = {{"tokens=3", "a,x=1", "b", 6, 7, 8, false}, {"tokens=5", "a,x=1", "", 0, 0, 0, true}},
      .withdrawn = {"w"}};
  CHECK(RangeState::parse(state.text()) == state);
  for (const char* place :
       {"/cells/0/cubins/a/time_us", "/cells/0/default/time_us", "/shapes/0/pick_us", "/shapes/0/best_us"}) {
    CAPTURE(place);
    for (const double wrong : {0.0, -1.0}) {
      nlohmann::json document = nlohmann::json::parse(state.text());
      document[nlohmann::json::json_pointer(place)] = wrong;
      CHECK_THROWS_WITH_AS(RangeState::parse(document.dump()), doctest::Contains("which is no time"), BadInput);
    }
  }
}
