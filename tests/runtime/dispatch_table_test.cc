#include "runtime/dispatch_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

using namespace moetune;

namespace {

TablePoint at(std::int64_t x, std::int64_t y, bool uneven = false) {
  TablePoint point;
  point.position = {x, y};
  point.uneven = uneven;
  return point;
}

using Default = DispatchTable::Default;

constexpr DispatchTable::Grid kEven{2, false}, kBoth{2, true};

std::optional<Default> no_default(const TablePoint&) { return std::nullopt; }

double ratio(std::int64_t a, std::int64_t b) {
  return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
}

}  // namespace

TEST_CASE("a measured point holds its winner, and what is near it the nearest one") {
  const std::vector<DispatchTable::Measured> measured = {
      {at(8, 1024), 1}, {at(64, 1024), 2}, {at(8, 16384), 3}};
  const DispatchTable table = DispatchTable::build(measured, kEven, no_default);
  for (const auto& one : measured) CHECK(table.find(one.point) == Cell{one.entry, ChoiceKind::exact});
  CHECK(table.find(at(9, 1100)) == Cell{1, ChoiceKind::exact});  // of the same cell
  CHECK(table.find(at(16, 2048)) == Cell{1, ChoiceKind::nearest});
  CHECK(table.find(at(40, 1024)).entry == 2);
  CHECK(table.find(at(1, 1)).entry == 1);
  CHECK(table.find(at(1 << 20, 1 << 21)).entry != Cell::kNone);
}

TEST_CASE("beyond the reach of all winners the default serves, if its cubin is there") {
  const std::vector<DispatchTable::Measured> measured = {{at(8, 1024), 1}};
  const DispatchTable with = DispatchTable::build(measured, kEven, [](const TablePoint&) {
    return Default{0, 7};
  });
  CHECK(with.find(at(8, 2800)) == Cell{1, ChoiceKind::nearest});
  CHECK(with.find(at(16, 2048)) == Cell{1, ChoiceKind::nearest});
  CHECK(with.find(at(22, 2048)) == Cell{7, ChoiceKind::fallback});
  CHECK(with.find(at(8, 4096)) == Cell{7, ChoiceKind::fallback});
  CHECK(with.find(at(8, 32768)) == Cell{7, ChoiceKind::fallback});
  CHECK(with.find(at(512, 1024)) == Cell{7, ChoiceKind::fallback});
  CHECK(DispatchTable::build(measured, kEven, no_default).find(at(8, 32768)) == Cell{1, ChoiceKind::nearest});
}

TEST_CASE(
    "between the cells of a range table its expected choices serve, each half-way to the next by ratio") {
  const std::vector<DispatchTable::Measured> measured = {
      {at(8, 1024), 1, true}, {at(64, 1024), 2, true}, {at(8, 4096), 3, true}, {at(20, 1024), 4}};
  constexpr std::uint32_t none = Cell::kNone;
  const std::vector<ExpectedGrid> expected = {
      {false, {{8, 16, 32, 64}, {1024, 2048, 4096}}, {9, 9, 9, 10, 10, 11, 12, none, none, 9, 9, 9}}};
  const DispatchTable table = DispatchTable::build(measured, kEven, no_default, expected);
  for (const auto& one : measured) CHECK(table.find(one.point) == Cell{one.entry, ChoiceKind::exact});
  CHECK(table.find(at(16, 1024)) == Cell{10, ChoiceKind::nearest});
  CHECK(table.find(at(15, 1400)) == Cell{10, ChoiceKind::nearest});
  CHECK(table.find(at(12, 3000)) == Cell{11, ChoiceKind::nearest});
  CHECK(table.find(at(16, 2048)) == Cell{10, ChoiceKind::nearest});
  CHECK(table.find(at(32, 1024)) == Cell{12, ChoiceKind::nearest});
  CHECK(table.find(at(32, 2048)).entry < 5);                         // none is expected: the nearest cell
  CHECK(table.find(at(300, 1024)) == Cell{2, ChoiceKind::nearest});  // past the grid
  CHECK(table.find(at(20, 2000)) == Cell{10, ChoiceKind::nearest});  // a later winner serves its own problem
}

TEST_CASE("a winner of this hardware goes before an inherited range table, as far as it reaches") {
  std::vector<DispatchTable::Measured> measured = {
      {.point = at(8, 1024), .entry = 1, .of_range = true, .inherited = true},
      {.point = at(64, 8192), .entry = 2, .of_range = true, .inherited = true},
      {.point = at(16, 2048), .entry = 3}};
  const auto by_rows = [](const TablePoint& point) {
    return Default{point.position[0] < 20 ? 0U : 1U, Cell::kNone};
  };
  const DispatchTable table = DispatchTable::build(measured, kEven, by_rows);
  CHECK(table.find(at(16, 2048)) == Cell{3, ChoiceKind::exact});
  CHECK(table.find(at(16, 3200)) == Cell{3, ChoiceKind::nearest});
  CHECK(table.find(at(23, 2048)).entry != 3);  // another default
  CHECK(table.find(at(8, 1024)) == Cell{1, ChoiceKind::exact});
  CHECK(table.find(at(64, 8192)) == Cell{2, ChoiceKind::exact});
  measured[2].inherited = true;
  CHECK(DispatchTable::build(measured, kEven, by_rows).find(at(16, 2048)) == Cell{3, ChoiceKind::exact});
}

TEST_CASE("points without a choice give the table coordinates, so that each default serves where it is one") {
  const std::vector<DispatchTable::Measured> none = {{at(8, 1024)}, {at(64, 16384)}};
  const auto by_context = [](const TablePoint& point) {
    const std::uint32_t config = point.position[1] < 3000 ? 5 : 6;
    return Default{config, config};
  };
  const DispatchTable table = DispatchTable::build(none, kEven, by_context);
  CHECK(table.find(at(8, 1024)) == Cell{5, ChoiceKind::fallback});
  CHECK(table.find(at(1, 2000)) == Cell{5, ChoiceKind::fallback});
  CHECK(table.find(at(64, 16384)) == Cell{6, ChoiceKind::fallback});
  CHECK(table.find(at(1, 1 << 20)) == Cell{6, ChoiceKind::fallback});
}

TEST_CASE("far from everything measured the default serves that is one there") {
  const std::vector<DispatchTable::Measured> measured = {{at(512, 8192), 1}};
  const DispatchTable table = DispatchTable::build(measured, kEven, [](const TablePoint& point) {
    const auto config = static_cast<std::uint32_t>(point.position[0] < 8 ? 5 : 6);
    return Default{config, config};
  });
  CHECK(table.find(at(1, 8192)) == Cell{5, ChoiceKind::fallback});
  CHECK(table.find(at(2, 64)) == Cell{5, ChoiceKind::fallback});
  CHECK(table.find(at(4096, 8192)) == Cell{6, ChoiceKind::fallback});
}

TEST_CASE("a winner that met another default than today's serves its own cell alone") {
  std::vector<DispatchTable::Measured> measured = {{at(8, 1024), 1}};
  const auto same_everywhere = [](const TablePoint&) { return Default{0, 7}; };
  CHECK(DispatchTable::build(measured, kEven, same_everywhere).find(at(8, 2048)).entry == 1);
  measured[0].met_default = false;
  const DispatchTable table = DispatchTable::build(measured, kEven, same_everywhere);
  CHECK(table.find(at(8, 1024)) == Cell{1, ChoiceKind::exact});
  CHECK(table.find(at(8, 2048)) == Cell{7, ChoiceKind::fallback});
  const auto without_cubin = [](const TablePoint&) { return Default{0, Cell::kNone}; };
  CHECK(DispatchTable::build(measured, kEven, without_cubin).find(at(8, 2048)).entry == 1);
}

TEST_CASE("expected choices are of one kind of work") {
  const std::vector<DispatchTable::Measured> measured = {{at(8, 1024), 1, true},
                                                         {at(64, 1024), 2, true},
                                                         {at(9, 1024, true), 3, true},
                                                         {at(60, 1024, true), 4, true}};
  const std::vector<ExpectedGrid> expected = {{true, {{9, 20, 60}, {1024}}, {7, 8, 7}}};
  const DispatchTable table = DispatchTable::build(measured, kBoth, no_default, expected);
  CHECK(table.find(at(20, 1024, true)) == Cell{8, ChoiceKind::nearest});
  CHECK(table.find(at(9, 1024, true)) == Cell{3, ChoiceKind::exact});
  CHECK(table.find(at(20, 1024)).entry == 1);
}

TEST_CASE("each kind of work has coordinates of its own") {
  const std::vector<DispatchTable::Measured> measured = {
      {at(8, 1024), 1, true},        {at(16, 1024), 2, true},       {at(9, 1024, true), 3, true},
      {at(11, 1024, true), 4, true}, {at(13, 1024, true), 5, true},
  };
  const DispatchTable table = DispatchTable::build(measured, kBoth, no_default);
  for (const auto& one : measured) CHECK(table.find(one.point) == Cell{one.entry, ChoiceKind::exact});
  CHECK(table.find(at(11, 1024)) == Cell{1, ChoiceKind::exact});  // of the cell that ends half-way to 16
  CHECK(table.find(at(12, 1024)) == Cell{2, ChoiceKind::exact});
  std::size_t even = 0, uneven = 0;
  table.visit_within(at(12, 1024), [&](const Cell&, const TablePoint& corner) {
    CHECK(corner.position[0] <= 12);
    if (corner.position[1] == 1024) (corner.uneven ? uneven : even) += corner.position[0] > 8 ? 1 : 0;
  });
  CHECK(even == 2);    // ends at 11 and within 16's
  CHECK(uneven == 3);  // 9, 11 and within 13's
}

TEST_CASE("a winner serves its own kind of work, and the other one only if there is no default") {
  const std::vector<DispatchTable::Measured> both = {{at(8, 1024), 1}, {at(8, 1024, true), 2}};
  const DispatchTable table = DispatchTable::build(both, kBoth, no_default);
  CHECK(table.find(at(8, 1024)).entry == 1);
  CHECK(table.find(at(8, 1024, true)).entry == 2);
  const std::vector<DispatchTable::Measured> one = {{at(8, 1024), 1}};
  CHECK(DispatchTable::build(one, kBoth, no_default).find(at(8, 1024, true)) == Cell{1, ChoiceKind::nearest});
  const DispatchTable with = DispatchTable::build(one, kBoth, [](const TablePoint&) {
    return Default{0, 7};
  });
  CHECK(with.find(at(8, 1024, true)) == Cell{7, ChoiceKind::fallback});
  CHECK(with.find(at(8, 1024)) == Cell{1, ChoiceKind::exact});
}

TEST_CASE("where the default decides otherwise than where a winner beat it, the default serves") {
  const std::vector<DispatchTable::Measured> measured = {{at(8, 1024), 1}, {at(64, 1024), 2}};
  // Splits a sequence while there are few rows, and ragged batches in another way.
  const auto default_at = [](const TablePoint& point) {
    const std::uint32_t config = point.uneven ? 2 : point.position[0] < 32 ? 0 : 1;
    return Default{config, 10 + config};
  };
  const DispatchTable table = DispatchTable::build(measured, kBoth, default_at);
  CHECK(table.find(at(16, 1024)) == Cell{1, ChoiceKind::nearest});
  CHECK(table.find(at(32, 1024)) == Cell{2, ChoiceKind::nearest});
  CHECK(table.find(at(23, 1024)) ==
        Cell{10, ChoiceKind::fallback});  // nearer to 64, where the default is another
  CHECK(table.find(at(8, 1024, true)) == Cell{12, ChoiceKind::fallback});
  const auto without_cubin = [&](const TablePoint& point) {
    return Default{default_at(point).config, Cell::kNone};
  };
  CHECK(DispatchTable::build(measured, kBoth, without_cubin).find(at(8, 1024, true)) ==
        Cell{1, ChoiceKind::nearest});
}

TEST_CASE("nothing measured and no default: every cell is empty, and none is out of range") {
  const DispatchTable table = DispatchTable::build({}, kEven, no_default);
  for (const std::int64_t x : {1, 7, 1 << 30}) CHECK(table.find(at(x, x)).entry == Cell::kNone);
}

TEST_CASE("a look-up finds the coordinate that is nearest by ratio, whatever was measured") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 100; ++round) {
    std::vector<DispatchTable::Measured> measured;
    const auto count = 1 + random() % 12;
    for (std::uint32_t i = 0; i < count; ++i) {
      const TablePoint point = at(std::int64_t{1} << (random() % 12), std::int64_t{100} << (random() % 10));
      if (std::none_of(measured.begin(), measured.end(),
                       [&](const auto& other) { return other.point.position == point.position; }))
        measured.push_back({point, i});
    }
    const DispatchTable table = DispatchTable::build(measured, kEven, no_default);
    for (const auto& one : measured) CHECK(table.find(one.point) == Cell{one.entry, ChoiceKind::exact});
    for (int probe = 0; probe < 50; ++probe) {
      const TablePoint point = at(1 + static_cast<std::int64_t>(random() % 5000),
                                  1 + static_cast<std::int64_t>(random() % 200000));
      const Cell cell = table.find(point);
      REQUIRE(cell.entry != Cell::kNone);
      if (measured.size() == 1) CHECK(cell.entry == measured[0].entry);
      if (cell.kind != ChoiceKind::exact) continue;
      const auto home = std::find_if(measured.begin(), measured.end(),
                                     [&](const auto& one) { return one.entry == cell.entry; });
      for (const auto& other : measured) {
        // Within an exact cell no other measured coordinate of the same row or column is nearer.
        if (other.point.position[1] == home->point.position[1] &&
            point.position[1] == home->point.position[1])
          CHECK(ratio(home->point.position[0], point.position[0]) <=
                ratio(other.point.position[0], point.position[0]) + 0.1);
      }
    }
  }
}

TEST_CASE("many coordinates are thinned out, and the table stays within its bound") {
  std::vector<DispatchTable::Measured> measured;
  for (std::uint32_t i = 0; i < 5000; ++i) measured.push_back({at(1, 1 + 7 * std::int64_t{i}), i});
  const DispatchTable table = DispatchTable::build(measured, kEven, no_default);
  CHECK(table.cells().size() < 20'000);
  CHECK(table.find(at(1, 1)).entry == 0);
}

TEST_CASE("a range sees every cell that it crosses, and a promise every corner within it") {
  const std::vector<DispatchTable::Measured> measured = {{at(8, 1024), 1}, {at(8, 8192), 2}};
  const DispatchTable table = DispatchTable::build(measured, kEven, no_default);
  const auto cells = table.cells_between(at(8, 1024), 8192);
  CHECK(cells.front().cell.entry == 1);
  CHECK(cells.back().cell.entry == 2);
  CHECK(cells.back().last == 8192);
  for (std::size_t i = 0; i + 1 < cells.size(); ++i) {
    CHECK(table.find(at(8, cells[i].last)) == cells[i].cell);
    CHECK(table.find(at(8, cells[i].last + 1)) == cells[i + 1].cell);
  }
  CHECK(table.cells_between(at(8, 1024), 1024).size() == 1);
  std::int64_t widest = 0;
  table.visit_within(at(5, 3000), [&](const Cell&, const TablePoint& corner) {
    CHECK(corner.position[0] <= 5);
    CHECK(corner.position[1] <= 3000);
    widest = std::max(widest, corner.position[1]);
  });
  CHECK(widest == 3000);
}
