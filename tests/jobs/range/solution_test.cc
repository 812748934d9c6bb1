// What a range's measurements become: which cubins, which configuration in which cell.
#include "jobs/range/solution.h"

#include <doctest/doctest.h>

using namespace moetune;

namespace {

// A cell whose duel gave these times of cubin "a" and a default of cubin "d".
MeasuredCell cell_with(const std::string& problem, const std::string& config, double time_us, double default_us) {
  MeasuredCell cell{.problem = problem};
  cell.cubins = {{"a", {config, time_us}}, {"d", {"d0", default_us}}};
  cell.measured_default = MeasuredConfig{"d0", default_us};
  cell.default_cubin = "d";
  return cell;
}

}  // namespace

TEST_CASE("where no cubin is faster than the default it serves, beside those that the table has") {
  RangeState state{.ranges = "batch=1..4", .cubins = {"a"}};
  state.cells = {cell_with("one", "a1", 10, 12), cell_with("two", "a1", 13, 12)};
  const RangeSolution solution = solve(state, 0.02, 1);
  CHECK(solution.cubins == std::vector<std::string>{"a"});
  REQUIRE(solution.table.cells.size() == 2);
  CHECK(solution.table.kept);
  CHECK(solution.left_to_default == 1);
  CHECK(solution.table.cells[0] == RangeCell{"one", "a1", 10, 12, 10, "d0"});
  CHECK(solution.table.cells[1] == RangeCell{"two", "d0", 12, 12, 12, "d0"});
  CHECK(RangeTable::parse(solution.table.text(), "a table") == solution.table);
}

TEST_CASE("what is slower than the default is not picked, though the bound would allow it") {
  RangeState state{.ranges = "batch=1..4", .cubins = {"a"}};
  state.cells = {cell_with("one", "a1", 10, 12), cell_with("two", "a1", 12.01, 12)};
  const RangeSolution solution = solve(state, 0.02, 4);
  CHECK(solution.cubins == std::vector<std::string>{"a"});
  REQUIRE(solution.table.cells.size() == 2);
  CHECK(solution.table.cells[1].config == "d0");
  // Without a default there is nothing else.
  state.cells[1].measured_default.reset();
  state.cells[1].cubins.erase("d");
  CHECK(solve(state, 0.02, 4).table.cells[1] == RangeCell{"two", "a1", 12.01, 0, 12.01, ""});
}

TEST_CASE("a default that was withdrawn serves no cell") {
  RangeState state{.ranges = "batch=1..4", .cubins = {"a"}, .withdrawn = {"d0"}};
  state.cells = {cell_with("one", "a1", 10, 12), cell_with("two", "a1", 13, 12)};
  const RangeSolution solution = solve(state, 0.02, 4);
  REQUIRE(solution.table.cells.size() == 2);
  CHECK(solution.table.cells[1] == RangeCell{"two", "a1", 13, 0, 13, ""});
}

TEST_CASE("a contended cell is left out, unless there is no other") {
  RangeState state{.ranges = "batch=1..4", .cubins = {"a"}};
  state.cells = {cell_with("one", "a1", 10, 12), cell_with("two", "a2", 10, 12)};
  state.cells[1].contended = true;
  const RangeSolution solution = solve(state, 0.02, 4);
  REQUIRE(solution.table.cells.size() == 1);
  CHECK(solution.table.cells[0].problem == "one");
  CHECK_FALSE(solution.table.contended);
  state.cells[0].contended = true;
  CHECK(solve(state, 0.02, 4).table.cells.size() == 2);
  CHECK(solve(state, 0.02, 4).table.contended);
}

TEST_CASE("a shape at which the choice fails is counted, and has no part in the regret") {
  RangeState state{.ranges = "batch=1..4", .cubins = {"a"}};
  state.cells = {cell_with("one", "a1", 10, 12)};
  state.shapes = {{.problem = "x", .pick = "a1", .pick_us = 10.1, .best_us = 10, .default_us = 12},
                  {.problem = "y", .pick = "a1", .failed = true}};
  const RangeCertificate seen = solve(state, 0.02, 4).table.certificate;
  CHECK(seen.shapes == 1);
  CHECK(seen.failed == 1);
  CHECK(seen.worst == doctest::Approx(0.01));
  CHECK(RangeState::parse(state.text()) == state);
}
