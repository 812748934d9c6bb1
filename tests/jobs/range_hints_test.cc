// Where the measuring of a cubin begins in a new cell.
#include "jobs/range_hints.h"

#include <doctest/doctest.h>

#include "kernels/registry.h"

using namespace moetune;

namespace {

PlannedCell cell_at(std::int64_t tokens) {
  const Problem problem =
      parse_problem("router", find_kernel("router").schema(), nullptr, "tokens=" + std::to_string(tokens));
  return {problem, {tokens}, false};
}

RangeCellState known_at(const PlannedCell& cell, const std::string& a, const std::string& b) {
  RangeCellState state{.problem = cell.problem.text()};
  state.cubins = {{"a", {a, 10}}, {"b", {b, 10}}};
  return state;
}

}  // namespace

TEST_CASE(
    "a cubin begins with what it ran with in the nearest cells, and what serves nearest is measured first") {
  const std::vector<PlannedCell> cells = {cell_at(1), cell_at(4), cell_at(32), cell_at(8)};
  RangeState state;
  state.cells = {known_at(cells[0], "a1", "b1"),
                 known_at(cells[1], "a4", "b4"),
                 known_at(cells[2], "a32", "b32"),
                 {.problem = cells[3].problem.text()}};
  const std::vector<RangePick> picks = {{"a", "a1"}, {"b", "steady"}, {"a", "a32"}, {}};
  const auto hints = [&](std::size_t origins) {
    return nearest_hints({"a", "b", "c"}, cells[3], cells, state, picks, origins);
  };
  const std::vector<CellMeter::Hint> two = hints(2);
  REQUIRE(two.size() == 3);
  CHECK(two[0].cubin == "b");  // serves at 4 tokens, the nearest to 8
  CHECK(two[1].cubin == "a");
  CHECK(two[2].cubin == "c");
  CHECK(two[2].origins.empty());
  REQUIRE(two[0].origins.size() == 3);  // of two cells, with what serves in one of them
  CHECK(two[0].origins[0].config == "b4");
  CHECK(two[0].origins[1].config == "steady");
  CHECK(two[0].origins[2].config == "b32");
  REQUIRE(two[1].origins.size() == 2);
  CHECK(two[1].origins[0].config == "a4");
  CHECK(hints(1)[1].origins.size() == 1);
}
