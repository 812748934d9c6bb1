// What a range's measurements become: which cubins, which configuration in which cell.
#include "jobs/range_solution.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

using namespace moetune;

namespace {

constexpr double kFailed = std::numeric_limits<double>::infinity();

// A cell whose duel gave these times of cubin "a", a default of cubin "d", and single trials a tenth longer.
RangeCellState cell_with(const std::string& problem, const std::string& config, double time_us,
                         double default_us) {
  RangeCellState cell{.problem = problem};
  cell.cubins = {{"a", {config, time_us}}, {"d", {"d0", default_us}}};
  cell.fallback = MeasuredConfig{"d0", default_us};
  cell.fallback_cubin = "d";
  cell.looks = {{config, {"a", 1.1 * time_us}}, {"d0", {"d", 1.1 * default_us}}};
  return cell;
}

}  // namespace

TEST_CASE("a cell picks what loses least around it, not what is best at one shape by luck") {
  RangeState state{.ranges = "batch=1..4", .cubins = {"a"}};
  state.cells = {cell_with("left", "steady", 10, 12), cell_with("lucky", "lucky", 10, 12),
                 cell_with("right", "steady", 10, 12)};
  state.cells[1].looks["steady"] = {"a", 1.1 * 10.04};  // 0.4% slower here
  for (const std::size_t side : {0, 2}) state.cells[side].looks["lucky"] = {"a", 1.1 * 12};
  const RangeNeighbours around = {{{1, 0.4}}, {{0, 0.4}, {2, 0.4}}, {{1, 0.4}}};
  const RangeSolution alone = solve(state, 0.02, 4), together = solve(state, 0.02, 4, around);
  CHECK(alone.table.cells[1].config == "lucky");
  CHECK(together.table.cells[1].config == "steady");
  CHECK(together.table.cells[1].time_us == doctest::Approx(10.04));
  CHECK(together.table.cells[1].regret() == doctest::Approx(0.004));
  CHECK(together.picks[1].cubin == "a");
  // Not if it gives away more than a quarter of the bound in the cell, or may be slower than the default there.
  state.cells[1].looks["steady"].time_us = 1.1 * 10.1;
  CHECK(solve(state, 0.02, 4, around).table.cells[1].config == "lucky");
  state.cells[1].looks["steady"].time_us = 1.1 * 10.04;
  state.cells[1].fallback->time_us = 10.04;
  CHECK(solve(state, 0.02, 4, around).table.cells[1].config == "lucky");
}

TEST_CASE(
    "a cell that keeps the bound keeps it with what it gives away, and those past it come worst first") {
  RangeState state{.ranges = "batch=1..4", .cubins = {"a"}};
  state.cells = {cell_with("left", "steady", 10, 12), cell_with("near", "near", 10.18, 12),
                 cell_with("past", "past", 10.5, 12), cell_with("worst", "worst", 11, 12)};
  for (const std::size_t i : {1, 2, 3}) state.cells[i].cubins["other"] = {"o1", 10};
  state.cells[1].looks["steady"] = {"a", 1.1 * 10.22};  // 0.4% slower than what loses 1.8% already
  state.cells[0].looks["near"] = {"a", 1.1 * 12};
  const RangeNeighbours around = {{{1, 0.4}}, {{0, 0.4}}, {}, {}};
  const RangeSolution solution = solve(state, 0.02, 1, around);
  CHECK(solution.cubins == std::vector<std::string>{"a"});
  CHECK(solution.table.cells[1].config == "near");
  CHECK(solution.past_bound == std::vector<std::size_t>{3, 2});
  state.cells[3].repaired = {"a"};
  CHECK(RangeState::parse(state.text()) == state);
}

TEST_CASE("what fails beside a cell is not picked in it") {
  RangeState state{.ranges = "batch=1..4", .cubins = {"a"}};
  state.cells = {cell_with("left", "steady", 10, 12), cell_with("right", "failing", 10, 12)};
  state.cells[1].looks["steady"] = {"a", 1.1 * 10.04};
  state.cells[0].looks["failing"] = {"a", kFailed};
  const RangeSolution solution = solve(state, 0.02, 4, {{{1, 0.4}}, {{0, 0.4}}});
  CHECK(solution.table.cells[1].config == "steady");
}

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

TEST_CASE("a contended cell is left to its neighbours, unless there is no other") {
  RangeState state{.ranges = "batch=1..4", .cubins = {"a"}};
  state.cells = {cell_with("one", "a1", 10, 12), cell_with("two", "a2", 10, 12)};
  state.cells[1].contended = true;
  const RangeSolution solution = solve(state, 0.02, 4);
  REQUIRE(solution.table.cells.size() == 1);
  CHECK(solution.table.cells[0].problem == "one");
  CHECK_FALSE(solution.table.contended);
  CHECK(solution.picks[1].config.empty());
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
