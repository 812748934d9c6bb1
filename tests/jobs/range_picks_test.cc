// The cell that a certificate measures at a shape is the one that a server launches there.
#include "jobs/range_picks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "cache/ranges.h"
#include "kernels/registry.h"
#include "ranges/range_table.h"
#include "search/random.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

Problem picked_problem(std::int64_t batch, std::int64_t context) {
  return parse_problem("decode_attention", find_kernel("decode_attention").schema(), nullptr,
                       "batch=" + std::to_string(batch) + ",q_heads=4,kv_heads=1,head_dim=64,context=" +
                           std::to_string(context) + ",page=16");
}

TablePoint point_at(std::int64_t batch, std::int64_t context) {
  TablePoint point;
  point.position = {batch, context};
  return point;
}

// An even grid, and cells that were added between its points.
std::vector<TablePoint> grid_with_additions(Random& random) {
  std::vector<TablePoint> points;
  for (const std::int64_t batch : {2, 6, 16, 45, 128}) {
    for (const std::int64_t context : {64, 256, 1024, 4096}) points.push_back(point_at(batch, context));
  }
  while (points.size() < 26) {
    const TablePoint added = point_at(2 + static_cast<std::int64_t>(random.below(120)),
                                      64 + static_cast<std::int64_t>(random.below(4000)));
    const auto is_same = [&](const TablePoint& other) {
      return std::ranges::equal(other.position, added.position);
    };
    if (std::ranges::none_of(points, is_same)) points.push_back(added);
  }
  return points;
}

}  // namespace

TEST_CASE("a certificate and a server pick the same cell at a thousand random shapes") {
  const Folder folder;
  Random random(18);
  const std::vector<TablePoint> points = grid_with_additions(random);
  RangeTable table{.ranges = "batch=2..128,context=64..4096", .bound = 0.02, .kept = true};
  // The cells are known by what they lose.
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Problem problem = picked_problem(points[i].position[0], points[i].position[1]);
    table.cells.push_back({problem.text(), plain_config(64), 10000.0 + static_cast<double>(i), 12000, 10000});
  }
  const Kernel& kernel = find_kernel("decode_attention");
  const Problem first = picked_problem(2, 64);
  // A winner of a search, as every range has some; the table came later, and serves in its place.
  store(folder / "cache.db", {{.problem = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=64,page=16",
                               .config = plain_config(64)}});
  RangeRecord record{.table = table.text(), .progress = "", .stored_at = "2999-01-01T00:00:00Z"};
  record.variants.push_back(fake_launch(first, plain_config(64)));
  const std::string family = kernel.specialization(first).text();
  Cache::open(folder / "cache.db", Cache::Mode::read_write)
      .put_range({kernel.name(), family, fake_device().key, "sources", "nvrtc 13.0", Timing::overlapped},
                 record);
  const Opened opened({folder / "cache.db"});
  moetune_family* const served = opened.family("group=4,head_dim=64,page=16");
  const RangePicks picks(*kernel.family_interface(first), points);
  std::size_t at_a_cell = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t batch = 2 + static_cast<std::int64_t>(random.below(127)),
                       context = 64 + static_cast<std::int64_t>(random.below(4033));
    CAPTURE(batch);
    CAPTURE(context);
    const std::int64_t extents[] = {batch, 1, context};
    moetune_choice choice{};
    REQUIRE_OK(moetune_pick(served, extents, 3, batch * context, &choice));
    const std::size_t expected = picks.at(point_at(batch, context)).value().index;
    const double regret = opened.explain(served, choice)["regret"]["cell"];
    CHECK(regret == doctest::Approx(table.cells[expected].regret()).epsilon(1e-6));
    at_a_cell += expected > 0;
  }
  CHECK(at_a_cell > 900);
}

TEST_CASE("each cell of an even range reaches half-way to its neighbours") {
  Random random(3);
  std::vector<TablePoint> points;
  for (const std::int64_t batch : {4, 16, 64, 256}) {
    for (const std::int64_t context : {512, 2048, 8192}) points.push_back(point_at(batch, context));
  }
  const RangePicks picks(*find_kernel("decode_attention").family_interface(picked_problem(2, 64)), points);
  for (int i = 0; i < 1000; ++i) {
    const TablePoint at = point_at(4 + static_cast<std::int64_t>(random.below(253)),
                                   512 + static_cast<std::int64_t>(random.below(7681)));
    const auto octaves = [](std::int64_t a, std::int64_t b) {
      return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
    };
    const TablePoint& cell = points[picks.at(at).value().index];
    CAPTURE(at.position[0]);
    CAPTURE(at.position[1]);
    CHECK(octaves(at.position[0], cell.position[0]) <= 1.02);  // half of two octaves, but for rounding
    CHECK(octaves(at.position[1], cell.position[1]) <= 1.001);
  }
}

TEST_CASE("expected choices are picked between the cells") {
  const std::vector<TablePoint> points = {point_at(4, 512), point_at(64, 512)};
  const ExpectedChoices expected{.configs = {"a", "b"}, .grids = {{false, {{4, 8, 64}, {512}}, {0, 1, 0}}}};
  const RangePicks picks(*find_kernel("decode_attention").family_interface(picked_problem(2, 64)), points,
                         expected);
  CHECK(picks.at(point_at(4, 512)) == RangePicks::Place{true, 0});
  CHECK(picks.at(point_at(8, 512)) == RangePicks::Place{false, 1});
  CHECK(picks.at(point_at(64, 512)) == RangePicks::Place{true, 1});
}
