#include "dispatch/dispatch_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

using namespace moetune;

namespace {

TablePoint at(std::int64_t x, std::int64_t y, bool ragged = false) {
  TablePoint point;
  point.position = {x, y};
  point.ragged = ragged;
  return point;
}

using Default = DispatchTable::Default;
using Measured = DispatchTable::Measured;

constexpr DispatchTable::Grid kEven{2, false}, kBoth{2, true};

std::optional<Default> no_default(const TablePoint&) { return std::nullopt; }
std::optional<Default> one_default(const TablePoint&) { return Default{0, 7}; }

double octaves(std::int64_t a, std::int64_t b) {
  return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
}

}  // namespace

TEST_CASE("a measured point holds its winner, and what is near it the nearest one") {
  const std::vector<Measured> measured = {{at(8, 1024), 1, 0}, {at(64, 1024), 2, 0}, {at(8, 16384), 3, 0}};
  const DispatchTable table = DispatchTable::build(measured, kEven, one_default);
  for (const Measured& one : measured) CHECK(table.find(one.point) == Cell{one.entry, ChoiceKind::exact});
  CHECK(table.find(at(9, 1100)) == Cell{1, ChoiceKind::nearest});
  CHECK(table.find(at(50, 1024)) == Cell{2, ChoiceKind::nearest});
  CHECK(table.find(at(8, 13000)) == Cell{3, ChoiceKind::nearest});
}

TEST_CASE("beyond the reach of all winners the default serves, if its cubin is there") {
  const std::vector<Measured> measured = {{at(8, 1024), 1, 0}};
  const DispatchTable with = DispatchTable::build(measured, kEven, one_default);
  for (const auto& [x, y] : {std::pair{8, 1300}, {10, 1300}, {7, 800}})
    CHECK(with.find(at(x, y)) == Cell{1, ChoiceKind::nearest});
  // A box's choice is that of its middle.
  for (const auto& [x, y] : {std::pair{8, 2600}, {20, 1024}, {8, 32768}, {512, 1024}, {3, 1024}})
    CHECK(with.find(at(x, y)) == Cell{7, ChoiceKind::by_default});
  CHECK(DispatchTable::build(measured, kEven, no_default).find(at(8, 32768)) == Cell{1, ChoiceKind::nearest});
  CHECK(DispatchTable::build(measured, kEven, no_default).find(at(1 << 20, 1 << 21)).entry == 1);
}

TEST_CASE("what did not beat the default clearly, or beat another one, serves its own point alone") {
  CHECK(DispatchTable::is_clear_win(10, 10 * (1 + DispatchTable::kMargin)));
  CHECK_FALSE(DispatchTable::is_clear_win(10, 10 * (1 + DispatchTable::kMargin) - 0.001));
  CHECK_FALSE(DispatchTable::is_clear_win(10, 0));  // it met no default
  const std::vector<Measured> measured = {{at(8, 1024), 1}, {at(64, 1024), 2, 5}};
  const DispatchTable table = DispatchTable::build(measured, kEven, one_default);
  CHECK(table.find(at(8, 1024)) == Cell{1, ChoiceKind::exact});
  CHECK(table.find(at(64, 1024)) == Cell{2, ChoiceKind::exact});
  for (const auto& [x, y] : {std::pair{8, 1025}, {9, 1024}, {7, 1024}, {64, 1023}, {65, 1024}})
    CHECK(table.find(at(x, y)) == Cell{7, ChoiceKind::by_default});
}

TEST_CASE("where nothing beat the default it serves, at the measured point too") {
  const std::vector<Measured> measured = {{at(8, 1024)}, {at(9, 1024), 1, 0}};
  const DispatchTable table = DispatchTable::build(measured, kEven, one_default);
  CHECK(table.find(at(8, 1024)) == Cell{7, ChoiceKind::by_default});
  CHECK(table.find(at(8, 1025)) == Cell{1, ChoiceKind::nearest});
}

TEST_CASE("a winner serves nothing whose default it has not beaten, to the very position") {
  const std::vector<Measured> measured = {{at(33, 1024), 1, 0}, {at(34, 1024), 2, 1}, {at(33, 900), 3, 0}};
  // One sequence more takes another default, as does a context that is longer than a limit.
  const auto default_at = [](const TablePoint& point) {
    const std::uint32_t config = point.position[1] > 1500 ? 2 : point.position[0] <= 33 ? 0 : 1;
    return std::optional(Default{config, 10 + config});
  };
  const DispatchTable table = DispatchTable::build(measured, kEven, default_at);
  for (std::int64_t rows = 1; rows <= 200; ++rows) {
    for (const std::int64_t context : {600, 1000, 1023, 1025, 1499, 1500, 1501, 1600, 2000}) {
      CAPTURE(rows);
      CAPTURE(context);
      const Cell cell = table.find(at(rows, context));
      const Default here = *default_at(at(rows, context));
      if (cell.kind == ChoiceKind::by_default) {
        CHECK(cell.entry == here.entry);
      } else {
        REQUIRE(cell.entry <= 3);
        CHECK(measured[cell.entry - 1].beat == here.config);
        CHECK(octaves(rows, measured[cell.entry - 1].point.position[0]) <
              DispatchTable::kReach + DispatchTable::kBoxOctaves / 2 + 0.1);
      }
    }
  }
  CHECK(table.find(at(32, 1030)).entry == 1);
  CHECK(table.find(at(36, 1030)).entry == 2);
}

TEST_CASE("a default whose limit lies aslant is followed closely, and never by a winner far beyond it") {
  const std::vector<Measured> measured = {{at(64, 4096), 1, 0}};
  const auto default_at = [](const TablePoint& point) {
    const std::uint32_t config = point.position[0] * point.position[1] < 300'000 ? 0 : 1;
    return std::optional(Default{config, 10 + config});
  };
  const DispatchTable table = DispatchTable::build(measured, kEven, default_at);
  CHECK(table.find(at(64, 4096)).entry == 1);
  for (std::int64_t rows = 40; rows <= 120; rows += 3) {
    for (std::int64_t context = 2100; context <= 8000; context += 111) {
      const double work = static_cast<double>(rows * context);
      const Cell cell = table.find(at(rows, context));
      CAPTURE(rows);
      CAPTURE(context);
      if (work > 300'000 * 1.1) CHECK(cell == Cell{11, ChoiceKind::by_default});
      if (work < 300'000 / 1.1) CHECK(cell.entry != 11);
    }
  }
}

TEST_CASE("a winner of this hardware goes before an inherited one, as far as it reaches") {
  std::vector<Measured> measured = {{.point = at(12, 1400), .entry = 1, .beat = 0, .inherited = true},
                                    {.point = at(16, 2048), .entry = 2, .beat = 0, .inherited = true},
                                    {.point = at(16, 2048), .entry = 3, .beat = 0}};
  const DispatchTable table = DispatchTable::build(measured, kEven, one_default);
  CHECK(table.find(at(16, 2048)) == Cell{3, ChoiceKind::exact});
  CHECK(table.find(at(13, 1550)) == Cell{3, ChoiceKind::nearest});
  CHECK(table.find(at(12, 1400)) == Cell{1, ChoiceKind::exact});
  CHECK(table.find(at(10, 1200)) == Cell{1, ChoiceKind::nearest});
}

TEST_CASE("far from everything measured the default serves that is one there") {
  const auto by_context = [](const TablePoint& point) {
    const std::uint32_t config = point.position[1] < 3000 ? 5 : 6;
    return std::optional(Default{config, config});
  };
  for (const std::vector<Measured>& measured : {std::vector<Measured>{}, {{at(512, 8192), 1, 6}}}) {
    const DispatchTable table = DispatchTable::build(measured, kEven, by_context);
    CHECK(table.find(at(8, 1024)) == Cell{5, ChoiceKind::by_default});
    CHECK(table.find(at(1, 2999)) == Cell{5, ChoiceKind::by_default});
    CHECK(table.find(at(1, 3000)) == Cell{6, ChoiceKind::by_default});
    CHECK(table.find(at(1, 1 << 20)) == Cell{6, ChoiceKind::by_default});
  }
}

TEST_CASE("a winner serves its own kind of work, and the other one only if there is no default") {
  const std::vector<Measured> both = {{at(8, 1024), 1, 0}, {at(8, 1024, true), 2, 0}};
  const DispatchTable table = DispatchTable::build(both, kBoth, one_default);
  CHECK(table.find(at(8, 1030)).entry == 1);
  CHECK(table.find(at(8, 1030, true)).entry == 2);
  const std::vector<Measured> one = {{at(8, 1024), 1, 0}};
  CHECK(DispatchTable::build(one, kBoth, no_default).find(at(8, 1024, true)) == Cell{1, ChoiceKind::nearest});
  const DispatchTable with = DispatchTable::build(one, kBoth, one_default);
  CHECK(with.find(at(8, 1024, true)) == Cell{7, ChoiceKind::by_default});
  CHECK(with.find(at(8, 1024)) == Cell{1, ChoiceKind::exact});
  const auto without_cubin = [](const TablePoint&) { return std::optional(Default{0, Cell::kNone}); };
  CHECK(DispatchTable::build(one, kBoth, without_cubin).find(at(8, 1024, true)) ==
        Cell{1, ChoiceKind::nearest});
}

TEST_CASE("nothing measured and no default: every cell is empty, and none is out of range") {
  const DispatchTable table = DispatchTable::build({}, kEven, no_default);
  for (const std::int64_t x : {1, 7, 1 << 30}) CHECK(table.find(at(x, x)).entry == Cell::kNone);
  CHECK(table.find(at(std::int64_t{1} << 50, 1)).entry == Cell::kNone);
}

TEST_CASE("whatever was measured, a choice is near a winner that beat the default there, or is the default") {
  std::mt19937_64 random(7);
  const auto default_at = [](const TablePoint& point) {
    const auto width = std::bit_width(static_cast<std::uint64_t>(point.position[0]));
    const auto config = static_cast<std::uint32_t>(width / 2 % 3 + (point.ragged ? 3 : 0));
    return std::optional(Default{config, 1000 + config});
  };
  for (int round = 0; round < 40; ++round) {
    std::vector<Measured> measured;
    const auto count = random() % 40;
    for (std::uint32_t i = 0; i < count; ++i) {
      Measured one{at(1 + static_cast<std::int64_t>(random() % 300),
                      100 + static_cast<std::int64_t>(random() % 100'000), random() % 2 == 0),
                   i};
      if (random() % 4 != 0) one.beat = static_cast<std::uint32_t>(random() % 6);
      const auto is_same = [&](const Measured& other) {
        return other.point.ragged == one.point.ragged && other.point.position == one.point.position;
      };
      if (std::ranges::none_of(measured, is_same)) measured.push_back(one);
    }
    const DispatchTable table = DispatchTable::build(measured, kBoth, default_at);
    for (const Measured& one : measured) CHECK(table.find(one.point) == Cell{one.entry, ChoiceKind::exact});
    for (int probe = 0; probe < 200; ++probe) {
      const TablePoint point = at(1 + static_cast<std::int64_t>(random() % 400),
                                  1 + static_cast<std::int64_t>(random() % 200'000), random() % 2 == 0);
      const Cell cell = table.find(point);
      const Default here = *default_at(point);
      if (cell.kind == ChoiceKind::exact) continue;
      if (cell.kind == ChoiceKind::by_default) {
        CHECK(cell.entry == here.entry);
        continue;
      }
      const auto home = std::ranges::find(measured, cell.entry, &Measured::entry);
      CHECK(home->beat == here.config);
      CHECK(home->point.ragged == point.ragged);
      for (const std::size_t axis : {0, 1})
        CHECK(octaves(home->point.position[axis], point.position[axis]) < 1.6);
    }
  }
}

TEST_CASE("a range sees every cell that it crosses, and a promise every corner within it") {
  const std::vector<Measured> measured = {{at(8, 1024), 1, 0}, {at(8, 8192), 2, 0}, {at(8, 3000), 3}};
  const DispatchTable table = DispatchTable::build(measured, kEven, one_default);
  const auto cells = table.cells_between(at(8, 1024), 8192);
  CHECK(cells.front().cell == Cell{1, ChoiceKind::exact});
  CHECK(cells.front().last == 1024);
  CHECK(cells.back().cell == Cell{2, ChoiceKind::exact});
  CHECK(cells.back().last == 8192);
  std::int64_t first = 1024;
  for (const CrossedCell& one : cells) {
    for (std::int64_t context = first; context <= one.last; ++context)
      REQUIRE(table.find(at(8, context)) == one.cell);
    first = one.last + 1;
  }
  CHECK(std::ranges::any_of(cells, [](const CrossedCell& one) { return one.cell.entry == 3; }));
  CHECK(table.cells_between(at(8, 1024), 1024).size() == 1);
  std::int64_t widest = 0;
  bool has_point = false;
  table.visit_within(at(8, 3000), [&](const Cell& cell, const TablePoint& corner) {
    CHECK(corner.position[0] <= 8);
    CHECK(corner.position[1] <= 3000);
    widest = std::max(widest, corner.position[1]);
    has_point = has_point || cell.entry == 3;
  });
  CHECK(widest == 3000);
  CHECK(has_point);
}

TEST_CASE("a table of many points stays within its bound") {
  std::vector<Measured> measured;
  for (std::uint32_t i = 0; i < 5000; ++i)
    measured.push_back({at(1 + i % 7, 1 + 7 * std::int64_t{i}), i, i % 3});
  const auto default_at = [](const TablePoint& point) {  // changes with every position
    return std::optional(Default{static_cast<std::uint32_t>(point.position[1] % 3), 9999});
  };
  const DispatchTable table = DispatchTable::build(measured, kEven, default_at);
  CHECK(table.cells().size() < 40'000);
  for (const Measured& one : measured) REQUIRE(table.find(one.point).entry == one.entry);
}
