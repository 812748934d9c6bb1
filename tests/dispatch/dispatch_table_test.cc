#include "dispatch/dispatch_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <thread>

using namespace moetune;

namespace {

// The extents of a problem are its position here, unless a test says otherwise.
TablePoint at(std::int64_t x, std::int64_t y, bool ragged = false) {
  TablePoint point;
  point.position = {x, y};
  point.ragged = ragged;
  return point;
}

Extents extents_of(const TablePoint& point) { return {point.position[0], point.position[1]}; }

using Measured = DispatchTable::Measured;

// Defaults by a function of the extents.
class Defaults final : public SpaceDefaults {
 public:
  using At = std::function<std::optional<std::uint32_t>(const TablePoint& point)>;
  explicit Defaults(At at) : at_(std::move(at)) {}

  std::optional<std::uint32_t> at(const Extents& extents, bool ragged) const override {
    return at_(::at(extents[0], extents[1], ragged));
  }
  // Looks at what changes along the second axis, at all of the first.
  Within within(const Extents& low, const Extents& high, bool ragged) const override {
    std::set<std::uint32_t> numbers;
    Within all;
    for (std::int64_t x = low[0]; x <= high[0]; ++x) {
      for (std::int64_t y = low[1]; y <= high[1]; ++y) {
        const std::optional<std::uint32_t> number = at({x, y}, ragged);
        if (number && numbers.insert(*number).second) all.numbers.push_back(*number);
        all.none = all.none || !number;
      }
    }
    return all;
  }

 private:
  At at_;
};

const Defaults kNoDefault([](const TablePoint&) { return std::nullopt; });
const Defaults kOneDefault([](const TablePoint&) { return std::optional<std::uint32_t>(0); });

Measured winner(const TablePoint& point, std::uint32_t entry, std::optional<std::uint32_t> beat = std::nullopt,
                bool inherited = false) {
  return {.point = point,
          .entry = entry,
          .met = beat,
          .is_clear = true,
          .inherited = inherited,
          .extents = extents_of(point)};
}

// Its winner, if any, is hardly faster than the default.
Measured close_call(const TablePoint& point, std::uint32_t met, std::uint32_t entry = Cell::kNone,
                    bool inherited = false) {
  return {.point = point, .entry = entry, .met = met, .inherited = inherited, .extents = extents_of(point)};
}

Cell find(const DispatchTable& table, const TablePoint& point) { return table.find(point, extents_of(point)); }

double octaves(std::int64_t a, std::int64_t b) {
  return std::abs(std::log2(static_cast<double>(a)) - std::log2(static_cast<double>(b)));
}

// The rule, as docs/ranges.md states it, by a look at everything.
Cell by_the_rule(const std::vector<Measured>& measured, const std::vector<std::uint32_t>& entries,
                 const SpaceDefaults& defaults, const TablePoint& point) {
  const std::optional<std::uint32_t> here = defaults.at(extents_of(point), point.ragged);
  for (const Measured& one : measured) {
    if (one.point.ragged == point.ragged && one.point.position == point.position) return {one.entry, ChoiceKind::exact};
  }
  for (const bool inherited : {false, true}) {
    const Measured* best = nullptr;
    double least = 0;
    for (const Measured& one : measured) {
      if (one.point.ragged != point.ragged || one.inherited != inherited || !here || one.met != here) continue;
      const double x = octaves(one.point.position[0], point.position[0]);
      const double y = octaves(one.point.position[1], point.position[1]);
      if (std::max(x, y) > 0.5 || (best != nullptr && x * x + y * y >= least)) continue;
      best = &one;
      least = x * x + y * y;
    }
    if (best != nullptr && best->is_clear) return {best->entry, ChoiceKind::nearest};
    if (best != nullptr) break;
  }
  return {entries[*here], ChoiceKind::by_default};
}

}  // namespace

TEST_CASE("a measured point holds its winner, and what is near it the nearest one") {
  const std::vector<Measured> measured = {winner(at(8, 1024), 1, 0), winner(at(64, 1024), 2, 0),
                                          winner(at(8, 16384), 3, 0)};
  const DispatchTable table(measured, {7}, kOneDefault);
  for (const Measured& one : measured) CHECK(find(table, one.point) == Cell{one.entry, ChoiceKind::exact});
  CHECK(find(table, at(9, 1100)) == Cell{1, ChoiceKind::nearest});
  CHECK(find(table, at(50, 1024)) == Cell{2, ChoiceKind::nearest});
  CHECK(find(table, at(8, 13000)) == Cell{3, ChoiceKind::nearest});
  // Of several in reach the nearest, on whichever axis it is, and not the first one.
  const DispatchTable close(
      {winner(at(30, 1000), 1, 0), winner(at(32, 1000), 2, 0), winner(at(36, 1000), 3, 0), winner(at(36, 1300), 4, 0)},
      {7}, kOneDefault);
  CHECK(find(close, at(36, 1005)) == Cell{3, ChoiceKind::nearest});
  CHECK(find(close, at(36, 1305)) == Cell{4, ChoiceKind::nearest});
}

TEST_CASE("beyond the reach of all winners the default serves, if its cubin is there") {
  const std::vector<Measured> measured = {winner(at(8, 1024), 1, 0)};
  const DispatchTable with(measured, {7}, kOneDefault);
  for (const auto& [x, y] : {std::pair{8, 1300}, {10, 1300}, {7, 800}, {8, 1448}, {11, 1024}})
    CHECK(find(with, at(x, y)) == Cell{1, ChoiceKind::nearest});
  for (const auto& [x, y] : {std::pair{8, 1449}, {12, 1024}, {8, 32768}, {512, 1024}, {5, 1024}})
    CHECK(find(with, at(x, y)) == Cell{7, ChoiceKind::by_default});
  CHECK(find(DispatchTable(measured, {}, kNoDefault), at(8, 32768)) == Cell{1, ChoiceKind::nearest});
  CHECK(find(DispatchTable(measured, {Cell::kNone}, kOneDefault), at(1 << 20, 1 << 21)) ==
        Cell{1, ChoiceKind::nearest});
}

TEST_CASE("of the points that met the default the nearest decides, also against a winner farther on") {
  const std::vector<Measured> measured = {winner(at(8, 1024), 1, 0), close_call(at(8, 1200), 0, 2),
                                          close_call(at(64, 1024), 0), winner(at(70, 1024), 3, 0)};
  const DispatchTable table(measured, {7}, kOneDefault);
  CHECK(find(table, at(8, 1100)) == Cell{1, ChoiceKind::nearest});
  CHECK(find(table, at(8, 1120)) == Cell{7, ChoiceKind::by_default});
  CHECK(find(table, at(8, 1200)) == Cell{2, ChoiceKind::exact});
  CHECK(find(table, at(8, 1300)) == Cell{7, ChoiceKind::by_default});
  CHECK(find(table, at(65, 1024)) == Cell{7, ChoiceKind::by_default});
  CHECK(find(table, at(68, 1024)) == Cell{3, ChoiceKind::nearest});
  // Without that default's cubin there is nothing better than the nearest winner.
  CHECK(find(DispatchTable(measured, {Cell::kNone}, kOneDefault), at(65, 1024)) == Cell{3, ChoiceKind::nearest});
  // What this hardware measured goes before what is inherited, though that is nearer.
  const DispatchTable both({close_call(at(8, 1024), 0), winner(at(8, 1100), 1, 0, true)}, {7}, kOneDefault);
  CHECK(find(both, at(8, 1101)) == Cell{7, ChoiceKind::by_default});
  CHECK(find(both, at(11, 1101)) == Cell{7, ChoiceKind::by_default});
  CHECK(find(both, at(8, 1500)) == Cell{1, ChoiceKind::nearest});
}

TEST_CASE("what did not beat the default clearly, or beat another one, serves its own point alone") {
  CHECK(DispatchTable::is_clear_win(10, 10 * (1 + DispatchTable::kMargin)));
  CHECK_FALSE(DispatchTable::is_clear_win(10, 10 * (1 + DispatchTable::kMargin) - 0.001));
  CHECK_FALSE(DispatchTable::is_clear_win(10, 0));  // it met no default
  const DispatchTable table({winner(at(8, 1024), 1), winner(at(64, 1024), 2, 5)}, {7}, kOneDefault);
  CHECK(find(table, at(8, 1024)) == Cell{1, ChoiceKind::exact});
  CHECK(find(table, at(64, 1024)) == Cell{2, ChoiceKind::exact});
  for (const auto& [x, y] : {std::pair{8, 1025}, {9, 1024}, {7, 1024}, {64, 1023}, {65, 1024}})
    CHECK(find(table, at(x, y)) == Cell{7, ChoiceKind::by_default});
}

TEST_CASE("where nothing beat the default it serves, at the measured point too") {
  const DispatchTable table({winner(at(8, 1024), Cell::kNone), winner(at(9, 1024), 1, 0)}, {7}, kOneDefault);
  CHECK(find(table, at(8, 1024)) == Cell{7, ChoiceKind::by_default});
  CHECK(find(table, at(8, 1025)) == Cell{1, ChoiceKind::nearest});
}

TEST_CASE("extents that lie at a measured point but have another default are served by what beat that one") {
  const Defaults defaults([](const TablePoint& point) {  // of the extents: x is sequences, whatever the rows
    return std::optional<std::uint32_t>(point.position[0] > 8 ? 1 : 0);
  });
  const DispatchTable table({winner(at(8, 1024), 1, 0), winner(at(9, 1024), 2, 1)}, {10, 11}, defaults);
  CHECK(table.find(at(8, 1024), {8, 1024}) == Cell{1, ChoiceKind::exact});
  CHECK(table.find(at(8, 1024), {4, 1024}) == Cell{1, ChoiceKind::exact});
  CHECK(table.find(at(8, 1024), {16, 1024}) == Cell{2, ChoiceKind::nearest});
  CHECK(table.find(at(8, 1000), {4, 1000}) == Cell{1, ChoiceKind::nearest});
  CHECK(table.find(at(8, 1000), {16, 1000}) == Cell{2, ChoiceKind::nearest});
}

TEST_CASE("of equally near winners the first in the table serves, in whatever order they come") {
  for (const bool has_default : {false, true}) {  // in any reach, and in that of a winner that beat the default
    std::vector<TablePoint> points =
        has_default ? std::vector{at(1200, 1000), at(1000, 1200), at(1300, 1300)}
                    : std::vector{at(500, 1000), at(2000, 1000), at(1000, 500), at(1000, 2000), at(4000, 4000)};
    std::vector<std::uint32_t> order(points.size());
    std::iota(order.begin(), order.end(), 0U);
    do {
      std::vector<Measured> measured;
      for (const std::uint32_t i : order) measured.push_back(winner(points[i], i, 0));
      const std::uint32_t farther = static_cast<std::uint32_t>(points.size()) - 1;
      const std::uint32_t first = order[0] != farther ? order[0] : order[1];
      const DispatchTable table(measured, has_default ? std::vector{7U} : std::vector<std::uint32_t>(),
                                has_default ? kOneDefault : kNoDefault);
      CHECK(find(table, at(1000, 1000)) == Cell{first, ChoiceKind::nearest});
    } while (std::ranges::next_permutation(order).found);
  }
}

TEST_CASE("a winner of this hardware goes before an inherited one, as far as it reaches") {
  const DispatchTable table(
      {winner(at(12, 1400), 1, 0, true), winner(at(16, 2048), 2, 0, true), winner(at(16, 2048), 3, 0)}, {7},
      kOneDefault);
  CHECK(find(table, at(16, 2048)) == Cell{3, ChoiceKind::exact});
  CHECK(find(table, at(13, 1550)) == Cell{3, ChoiceKind::nearest});
  CHECK(find(table, at(12, 1400)) == Cell{1, ChoiceKind::exact});
  CHECK(find(table, at(10, 1200)) == Cell{1, ChoiceKind::nearest});
}

TEST_CASE("a winner serves its own kind of work, and the other one only if there is no default") {
  const DispatchTable both({winner(at(8, 1024), 1, 0), winner(at(8, 1024, true), 2, 0)}, {7}, kOneDefault);
  CHECK(find(both, at(8, 1030)).entry == 1);
  CHECK(find(both, at(8, 1030, true)).entry == 2);
  const DispatchTable apart({winner(at(8, 1024), 1, 0), winner(at(64, 8192, true), 2, 0)}, {}, kNoDefault);
  CHECK(find(apart, at(64, 8192)) == Cell{1, ChoiceKind::nearest});
  CHECK(find(apart, at(8, 1024, true)) == Cell{2, ChoiceKind::nearest});
  const std::vector<Measured> one = {winner(at(8, 1024), 1, 0)};
  CHECK(find(DispatchTable(one, {}, kNoDefault), at(8, 1024, true)) == Cell{1, ChoiceKind::nearest});
  CHECK(find(DispatchTable(one, {7}, kOneDefault), at(8, 1024, true)) == Cell{7, ChoiceKind::by_default});
  CHECK(find(DispatchTable(one, {Cell::kNone}, kOneDefault), at(8, 1024, true)) == Cell{1, ChoiceKind::nearest});
}

TEST_CASE("nothing measured and no default: nothing serves") {
  const DispatchTable table({}, {}, kNoDefault);
  CHECK(table.is_empty());
  for (const std::int64_t x : {std::int64_t{1}, std::int64_t{7}, std::int64_t{1} << 50})
    CHECK(find(table, at(x, x)).entry == Cell::kNone);
}

TEST_CASE("every choice is by the rule, also when it is asked for again, by several threads") {
  // Limits along the axes, and aslant.
  const Defaults defaults([](const TablePoint& point) {
    const auto width = std::bit_width(static_cast<std::uint64_t>(point.position[0]));
    const bool is_much = point.position[0] * point.position[1] > 300'000;
    return std::optional<std::uint32_t>(width / 2 % 3 + (is_much ? 3 : 0) + (point.ragged ? 6 : 0));
  });
  std::vector<std::uint32_t> entries;
  for (std::uint32_t number = 0; number < 12; ++number) entries.push_back(100'000 + number);
  std::mt19937_64 random(7);
  for (const std::size_t count : {0, 1, 5, 40, 3000}) {
    std::vector<Measured> measured;
    std::set<std::tuple<std::int64_t, std::int64_t, bool>> places;
    for (std::uint32_t i = 0; i < count; ++i) {
      Measured one = winner(at(1 + static_cast<std::int64_t>(random() % 300),
                               100 + static_cast<std::int64_t>(random() % 30'000), random() % 2 == 0),
                            i, std::nullopt, random() % 3 == 0);
      if (random() % 4 != 0) one.met = static_cast<std::uint32_t>(random() % 12);
      one.is_clear = random() % 2 == 0;
      if (places.emplace(one.point.position[0], one.point.position[1], one.point.ragged).second)
        measured.push_back(one);
    }
    const DispatchTable table(measured, entries, defaults);
    std::vector<TablePoint> points;
    for (const Measured& one : measured) points.push_back(one.point);
    for (int probe = 0; probe < 3000; ++probe)
      points.push_back(at(1 + static_cast<std::int64_t>(random() % 400),
                          1 + static_cast<std::int64_t>(random() % 50'000), random() % 2 == 0));
    std::vector<Cell> right;
    for (const TablePoint& point : points) right.push_back(by_the_rule(measured, entries, defaults, point));
    std::vector<int> wrong(4);
    {
      std::vector<std::jthread> threads;
      for (std::size_t thread = 0; thread < wrong.size(); ++thread) {
        threads.emplace_back([&, thread] {
          for (int turn = 0; turn < 3; ++turn) {
            for (std::size_t i = 0; i < points.size(); ++i) wrong[thread] += !(find(table, points[i]) == right[i]);
          }
        });
      }
    }
    CHECK(wrong == std::vector<int>(4));
  }
}

TEST_CASE("what may be chosen in a region is all that is, and no winner out of reach") {
  const Defaults defaults([](const TablePoint& point) {
    return point.position[1] > 900 ? std::nullopt : std::optional<std::uint32_t>(point.position[0] > 20 ? 1 : 0);
  });
  std::mt19937_64 random(11);
  for (int round = 0; round < 30; ++round) {
    std::vector<Measured> measured;
    for (std::uint32_t i = 0; i < 12; ++i)
      measured.push_back(winner(at(1 + static_cast<std::int64_t>(random() % 40),
                                   1 + static_cast<std::int64_t>(random() % 1500), random() % 4 == 0),
                                i, static_cast<std::uint32_t>(random() % 3), random() % 3 == 0));
    for (Measured& one : measured) one.is_clear = random() % 3 != 0;
    const DispatchTable table(measured, {100, round % 2 == 0 ? 101 : Cell::kNone}, defaults);
    const std::int64_t x = 1 + static_cast<std::int64_t>(random() % 30),
                       y = 700 + static_cast<std::int64_t>(random() % 300);
    DispatchTable::Region region{{x, y}, {x + 6, y + 40}, at(x, y), at(x + 6, y + 40)};
    std::set<std::uint32_t> possible;
    table.visit_possible(region, [&](std::uint32_t entry) { possible.insert(entry); });
    for (std::int64_t i = x; i <= x + 6; ++i) {
      for (std::int64_t j = y; j <= y + 40; ++j) REQUIRE(possible.contains(find(table, at(i, j)).entry));
    }
  }
  const DispatchTable few({winner(at(8, 100), 1, 0), winner(at(8, 400), 2, 0)}, {100, 101}, defaults);
  std::set<std::uint32_t> possible;
  few.visit_possible({{8, 110}, {9, 120}, at(8, 110), at(9, 120)},
                     [&](std::uint32_t entry) { possible.insert(entry); });
  CHECK(possible == std::set<std::uint32_t>{1, 100});
}

TEST_CASE("a range sees every cell that it crosses") {
  const Defaults defaults([](const TablePoint& point) {
    return std::optional<std::uint32_t>(point.position[1] > 5000 && point.position[1] < 5010 ? 1 : 0);
  });
  std::vector<Measured> measured = {winner(at(8, 1024), 1, 0), winner(at(8, 8192), 2, 0), winner(at(8, 3000), 3),
                                    winner(at(7, 6000), 4, 0), winner(at(9, 6100), 5, 0, true),
                                    winner(at(10, 1300), 6, 0), winner(at(8, 5005), 7, 0, true),
                                    // The default on both sides of a winner, within half an octave.
                                    close_call(at(8, 3900), 0), winner(at(8, 4000), 8, 0), close_call(at(8, 4100), 0)};
  const DispatchTable table(measured, {20, 21}, defaults);
  const auto point_of = [](const Extents& extents) { return at(extents[0], extents[1]); };
  const auto cells = table.cells_between(1024, {8, 8192}, point_of);
  CHECK(cells.front().cell == Cell{1, ChoiceKind::exact});
  CHECK(cells.front().last == 1024);
  CHECK(cells.back().cell == Cell{2, ChoiceKind::exact});
  CHECK(cells.back().last == 8192);
  CHECK(cells.size() < 100);
  std::int64_t first = 1024;
  for (const CrossedCell& one : cells) {
    for (std::int64_t context = first; context <= one.last; ++context) REQUIRE(find(table, at(8, context)) == one.cell);
    first = one.last + 1;
  }
  for (const std::uint32_t entry : {3, 21, 4, 20, 8})
    CHECK(std::ranges::any_of(cells, [&](const CrossedCell& one) { return one.cell.entry == entry; }));
  CHECK(table.cells_between(1024, {8, 1024}, point_of).size() == 1);
}

TEST_CASE("a hull holds what lies between its points, sides included, of a kind of work that it has") {
  PointHull hull;
  for (const TablePoint& point : {at(2, 64), at(8, 16)}) hull.add(point);
  for (const TablePoint& point : {at(2, 16), at(8, 64), at(4, 32)}) {
    CHECK(hull.holds(point));
    TablePoint ragged = point;
    ragged.ragged = true;
    CHECK_FALSE(hull.holds(ragged));
  }
  for (const TablePoint& point : {at(1, 32), at(9, 32), at(4, 15), at(4, 65)}) CHECK_FALSE(hull.holds(point));
  hull.add(at(4, 32, true));
  CHECK(hull.holds(at(4, 32, true)));
  CHECK_FALSE(hull.holds(at(4, 33, true)));
}
