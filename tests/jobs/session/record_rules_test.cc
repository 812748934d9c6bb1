// How good a range table is to a merge.
#include "jobs/session/record_rules.h"

#include <doctest/doctest.h>

#include "cache/cache.h"
#include "ranges/range_table.h"

using namespace moetune;

namespace {

struct Figures {
  int cells = 100;
  double loss = 0.01;  // of the worst unseen shape
  bool contended = false;
  std::size_t shapes = 12;
};

RangeMerit merit_of(const Figures& figures) {
  RangeTable table{.ranges = "n=1..4096", .bound = 0.02, .contended = figures.contended};
  for (int n = 1; n <= figures.cells; ++n) table.cells.push_back({"n=" + std::to_string(n), "x=1", 10, 12, 10});
  table.certificate = {.shapes = figures.shapes, .worst = figures.loss};
  return merit_of_range(table.text());
}

}  // namespace

TEST_CASE("a merge prefers the table of more cells to one of which little was seen, and which lost nothing there") {
  const RangeMerit fine = merit_of({.cells = 313, .loss = 0.926, .shapes = 8});
  const RangeMerit coarse = merit_of({.cells = 43, .loss = 0, .shapes = 1});
  CHECK(fine < coarse);
  CHECK(merit_of({.cells = 321, .loss = 0.3}) < merit_of({.cells = 255, .loss = 0.1}));
  CHECK(merit_of({.cells = 43, .loss = 0, .contended = true}) > coarse);
  CHECK(merit_of({.cells = 313, .loss = 0, .contended = true}) > coarse);
}

TEST_CASE("of tables with nearly as many cells a merge prefers the one that lost less, and a text that is none last") {
  CHECK(merit_of({.cells = 405, .loss = 0.03}) < merit_of({.cells = 420, .loss = 0.05}));
  CHECK(merit_of({.cells = 420, .loss = 0.03}) < merit_of({.cells = 405, .loss = 0.05}));
  CHECK(merit_of({.loss = 0.9}) < merit_of({.loss = 0, .shapes = 0}));
  CHECK(merit_of({.cells = 1, .loss = 9}) < merit_of_range("{}"));
}
