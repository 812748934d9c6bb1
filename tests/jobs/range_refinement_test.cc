// Between which cells of a range another one is worth its time.
#include "jobs/range_refinement.h"

#include <doctest/doctest.h>

#include <limits>

#include "kernels/registry.h"

using namespace moetune;

namespace {

// A line of cells, each with a choice of its own.
class Line {
 public:
  void add(std::int64_t tokens, const std::string& config) {
    Problem problem =
        parse_problem("router", find_kernel("router").schema(), nullptr, "tokens=" + std::to_string(tokens));
    state_.cells.push_back({.problem = problem.text()});
    cells_.push_back({std::move(problem), {tokens}, false, {tokens}});
    picks_.push_back({config, config});
    time(cells_.size() - 1, config, 10);
  }
  void time(std::size_t cell, const std::string& config, double us) {
    state_.cells[cell].looks[config] = {config, us};
    state_.cells[cell].cubins[config] = {config, us};
  }
  std::vector<std::pair<std::size_t, std::size_t>> disagreements() const {
    return moetune::disagreements(cells_, state_, picks_, 0.02);
  }

 private:
  std::vector<PlannedCell> cells_;
  RangeState state_;
  std::vector<RangePick> picks_;
};

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

// Whether 4 and `next` tokens disagree if the one's choice takes `us` instead of 10 in the other's cell.
bool disagree(std::int64_t next, double us) {
  Line line;
  line.add(4, "few");
  line.add(next, "many");
  line.time(1, "few", us);
  return line.disagreements() == Pairs{{0, 1}};
}

}  // namespace

TEST_CASE("neighbours disagree if the one's choice loses more than the bound in the other's cell") {
  CHECK(disagree(8, 10.3));
  CHECK_FALSE(disagree(8, 10.1));
  CHECK(disagree(8, std::numeric_limits<double>::infinity()));
}

TEST_CASE("the closer two cells are, the more must be lost for a third one between them") {
  CHECK(disagree(5, 11));
  CHECK_FALSE(disagree(5, 10.25));
  Line line;
  line.add(1024, "few");
  line.add(1025, "many");
  line.time(1, "few", std::numeric_limits<double>::infinity());
  CHECK(line.disagreements().empty());
}

TEST_CASE("what loses most over the gap comes first") {
  Line line;
  line.add(4, "few");
  line.add(8, "some");
  line.add(64, "many");
  line.time(1, "few", 11.5);
  line.time(2, "some", 11);  // less, but three octaves away
  CHECK(line.disagreements() == Pairs{{1, 2}, {0, 1}});
  line.time(1, "few", 20);
  CHECK(line.disagreements() == Pairs{{0, 1}, {1, 2}});
}

TEST_CASE("cells whose choices were not tried in each other do not disagree") {
  Line line;
  line.add(4, "few");
  line.add(64, "many");
  CHECK(line.disagreements().empty());
}
