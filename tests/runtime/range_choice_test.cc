// One choice for a range of cells: the one that is used least far from where it serves.
#include "runtime/range_choice.h"

#include <doctest/doctest.h>

#include <vector>

using namespace moetune;

namespace {

// Entries 0, 1, ... have these configurations, with what a range table lost there; below 0: none did. The cubin is
// none, and told from others by its place.
struct Entry {
  const char* config;
  double loss = -1;
  std::uintptr_t cubin = 0;
};

RangeChoice choose(const std::vector<Entry>& entries, const std::vector<Cell>& cells) {
  FamilyEntries all;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    FamilyEntry entry;
    entry.config = entries[i].config;
    entry.variant = reinterpret_cast<const Variant*>(entries[i].cubin);
    entry.source.problem = std::to_string(i);  // each measured on another
    if (entries[i].loss >= 0) entry.source.loss = RangeLoss{.cell = entries[i].loss};
    REQUIRE(all.add(std::move(entry)) == i);
  }
  std::vector<CrossedCell> crossed;
  for (const Cell& cell : cells) crossed.push_back({cell, 100 * static_cast<std::int64_t>(crossed.size() + 1)});
  return choose_for_range(crossed, all);
}

constexpr ChoiceKind exact = ChoiceKind::exact, nearest = ChoiceKind::nearest, by_default = ChoiceKind::by_default;
constexpr Cell kEmpty{};

}  // namespace

TEST_CASE("a configuration that serves many cells is one candidate, wherever each was measured") {
  // Alone, each "a" is up to four cells from the others; together they are nowhere more than one from a home.
  const RangeChoice choice =
      choose({{"a"}, {"b"}, {"a"}, {"a"}}, {{0, exact}, {1, exact}, {2, exact}, {1, nearest}, {3, exact}});
  CHECK(choice.cell == Cell{0, nearest});
  CHECK(choice.missed == 400);  // the last cell that another one serves
  CHECK(choose({{"a", -1, 16}, {"a", -1, 16}}, {{0, exact}, {1, exact}}).cell == Cell{0, exact});
  CHECK(choose({{"a", -1, 16}, {"a", -1, 32}}, {{0, exact}, {1, exact}}).cell == Cell{0, nearest});
}

TEST_CASE("a range is exact only if one choice was measured in each of its cells") {
  CHECK(choose({{"a"}, {"a"}}, {{0, exact}, {1, exact}}).cell == Cell{0, exact});
  const RangeChoice partly = choose({{"a"}}, {{0, exact}, {0, nearest}, {0, exact}});
  CHECK(partly.cell == Cell{0, nearest});
  CHECK(partly.missed == 200);
  CHECK(choose({{"a"}}, {{0, exact}, kEmpty}).cell == Cell{0, nearest});
  CHECK(choose({{"d"}}, {{0, by_default}, {0, by_default}}).cell == Cell{0, by_default});
}

TEST_CASE("of equally distant ones the range table's least loss decides, then the first") {
  const std::vector<Cell> cells = {{0, exact}, {1, exact}};
  CHECK(choose({{"a", 0.02}, {"b", 0.01}}, cells).cell.entry == 1);
  CHECK(choose({{"a", 0.01}, {"b", 0.02}}, cells).cell.entry == 0);
  CHECK(choose({{"a"}, {"b"}}, cells).cell.entry == 0);
  // The worst of its own cells counts, not the first.
  CHECK(choose({{"a", 0}, {"b", 0.02}, {"b", 0.02}, {"a", 0.03}}, {{0, exact}, {1, exact}, {2, exact}, {3, exact}})
            .cell.entry == 1);
}

TEST_CASE("what nothing serves is a miss at the end of the range") {
  const RangeChoice choice = choose({}, {kEmpty, kEmpty});
  CHECK(choice.cell.entry == Cell::kNone);
  CHECK(choice.missed == 200);
}
