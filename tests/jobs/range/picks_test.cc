// What a certificate measures at a shape is what a server launches there.
#include "jobs/range/picks.h"

#include <doctest/doctest.h>

#include <set>

#include "cache/ranges.h"
#include "kernels/registry.h"
#include "search/random.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

Problem picked_problem(std::int64_t batch, std::int64_t context, bool ragged = false) {
  return find_kernel("decode_attention")
      .parse("batch=" + std::to_string(batch) + ",q_heads=4,kv_heads=1,head_dim=64,context=" + std::to_string(context) +
             ",page=16" + (ragged ? ",lengths=ragged" : ""));
}

// An even grid, and cells that were added between its points. They are known by what they lose.
RangeTable grid_with_additions(Random& random, const std::vector<std::string>& defaults) {
  RangeTable table{.ranges = "batch=2..128,context=64..4096", .bound = 0.2, .kept = true};
  std::set<std::string> known;
  const auto add = [&](std::int64_t batch, std::int64_t context, bool ragged) {
    const Problem problem = picked_problem(batch, context, ragged);
    if (!known.insert(problem.text()).second) return;
    const std::size_t i = table.cells.size();
    RangeCell cell{problem.text(), plain_config(64), 10000.0 + static_cast<double>(i), 12000, 10000};
    if (i % 5 == 1) cell.default_us = cell.time_us + 1;  // no clear win
    if (i % 3 == 1) cell.default_config = defaults[i % defaults.size()];
    table.cells.push_back(cell);
  };
  for (const std::int64_t batch : {2, 6, 16, 45, 128}) {
    for (const std::int64_t context : {64, 256, 1024, 4096}) {
      add(batch, context, false);
      add(batch, context, true);
    }
  }
  while (table.cells.size() < 60) {
    add(2 + static_cast<std::int64_t>(random.below(120)), 64 + static_cast<std::int64_t>(random.below(4000)),
        random.below(2) == 0);
  }
  return table;
}

}  // namespace

TEST_CASE("a certificate and a server pick the same at two thousand random shapes") {
  const Folder folder;
  Random random(18);
  const Kernel& kernel = find_kernel("decode_attention");
  const Problem first = picked_problem(2, 64);
  const DeviceLimits limits = fake_device().limits;
  RangeTable probe;
  for (const auto& [batch, context] : {std::pair{2, 64}, {128, 4096}}) {
    for (const bool ragged : {false, true})
      probe.cells.push_back({picked_problem(batch, context, ragged).text(), "", 1, 2, 1});
  }
  RangeRecord record{.table = "", .progress = "", .stored_at = "2999-01-01T00:00:00Z"};
  record.variants.push_back(fake_launch(first, plain_config(64)));
  std::vector<std::string> defaults;
  const RangePicks probed(kernel, limits, probe);
  for (const RangePicks::Default& one : probed.defaults()) {
    record.variants.push_back(fake_launch(first, one.config));
    defaults.push_back(one.config);
  }
  REQUIRE(defaults.size() > 2);
  const RangeTable table = grid_with_additions(random, defaults);
  record.table = table.text();
  // A winner of a search, as every range has some; the table came later, and serves in its place.
  store(folder / "cache.db", {{.problem = first.text(), .config = plain_config(64)}});
  const std::string family = kernel.specialization(first).text();
  Cache::open(folder / "cache.db", Cache::Mode::read_write)
      .ranges.put({kernel.name(), family, fake_device().key, "sources", "nvrtc 13.0", Timing::overlapped}, record);
  const Opened opened({folder / "cache.db"});
  moetune_family* const served = opened.family("group=4,head_dim=64,page=16");
  REQUIRE(opened.warnings().find("range table") == std::string::npos);
  const RangePicks picks(kernel, limits, table);
  std::size_t by_default = 0, by_cell = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t batch = 2 + static_cast<std::int64_t>(random.below(127)),
                       context = 64 + static_cast<std::int64_t>(random.below(4033));
    CAPTURE(batch);
    CAPTURE(context);
    const std::int64_t extents[] = {batch, 1, context};
    moetune_choice choice{};
    REQUIRE_OK(moetune_pick(served, extents, 3, batch * context, &choice));
    const nlohmann::json explained = opened.explain(served, choice);
    const RangePicks::Pick pick = picks.at(picked_problem(batch, context)).value();
    CHECK(pick.config == explained["config"]);
    CHECK((pick.cell == nullptr) == (explained["kind"] == "default"));
    if (pick.cell != nullptr) CHECK(pick.cell->problem == explained["measured_on"]);
    (pick.cell == nullptr ? by_default : by_cell) += 1;
  }
  CHECK(by_default > 100);
  CHECK(by_cell > 50);
}

TEST_CASE("a table serves what lies between its cells, each kind of work apart") {
  RangeTable table;
  table.cells = {{picked_problem(4, 512).text(), plain_config(64), 10, 12, 10},
                 {picked_problem(64, 2048).text(), plain_config(64), 10, 12, 10}};
  const RangePicks picks(find_kernel("decode_attention"), fake_device().limits, table);
  CHECK(picks.holds(picked_problem(4, 512)));
  CHECK(picks.holds(picked_problem(20, 1000)));
  CHECK_FALSE(picks.holds(picked_problem(65, 1000)));
  CHECK_FALSE(picks.holds(picked_problem(20, 300)));
  CHECK_FALSE(picks.holds(picked_problem(20, 1000, true)));
  const RangeTable nothing;
  const RangePicks none(find_kernel("decode_attention"), fake_device().limits, nothing);
  CHECK_FALSE(none.at(picked_problem(4, 512)));
  CHECK_FALSE(none.holds(picked_problem(4, 512)));
}
