// What a certificate measures at a shape is what a server launches there.
#include "jobs/range/picks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "cache/ranges.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "search/random.h"
#include "soundness/stored_key.h"
#include "tests/paths.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

Problem picked_problem(std::int64_t batch, std::int64_t context, bool ragged = false) {
  return parse_problem("decode_attention", find_kernel("decode_attention").schema(), nullptr,
                       "batch=" + std::to_string(batch) + ",q_heads=4,kv_heads=1,head_dim=64,context=" +
                           std::to_string(context) + ",page=16" + (ragged ? ",lengths=ragged" : ""));
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

// What docs/ranges.md says that a table serves, by a look at every cell and the space's own defaults.
class ByTheRule {
 public:
  ByTheRule(const Kernel& kernel, const DeviceLimits& limits, const RangeTable& table)
      : kernel_(kernel), limits_(limits), table_(table) {
    for (const RangeCell& cell : table.cells) {
      const Problem problem = parse_problem(kernel.name(), kernel.schema(), nullptr, cell.problem);
      if (!interface_) interface_ = kernel.family_interface(problem);
      points_.push_back(interface_->table_point_of(problem));
      const bool is_clear = cell.default_us > 0 && cell.time_us * 1.03 <= cell.default_us;
      const std::string met =
          cell.default_config.empty() && is_clear ? default_at(problem) : cell.default_config;
      beaten_.push_back(is_clear ? met : "none");
    }
  }

  std::string default_at(const Problem& problem) const {
    const auto config = shared_space(kernel_.name()).default_config(expression_environment(problem, limits_));
    return config ? config->text() : "";
  }

  std::string at(const Problem& problem) const {
    const TablePoint point = interface_->table_point_of(problem);
    const std::string default_there = default_at(problem);
    std::size_t best = points_.size();
    double least = 0;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      if (points_[i].ragged != point.ragged) continue;
      double most = 0, sum = 0;
      for (std::size_t axis = 0; axis < point.position.size(); ++axis) {
        const double apart = std::abs(std::log2(static_cast<double>(points_[i].position[axis])) -
                                      std::log2(static_cast<double>(point.position[axis])));
        most = std::max(most, apart);
        sum += apart * apart;
      }
      if (most == 0) return table_.cells[i].config;
      if (most > 0.5 || beaten_[i] != default_there || (best < points_.size() && sum >= least)) continue;
      best = i;
      least = sum;
    }
    return best < points_.size() ? table_.cells[best].config : default_there;
  }

  const FamilyInterface& interface() const { return *interface_; }

 private:
  const Kernel& kernel_;
  const DeviceLimits& limits_;
  const RangeTable& table_;
  std::unique_ptr<const FamilyInterface> interface_;
  std::vector<TablePoint> points_;
  std::vector<std::string> beaten_;  // the default that a cell's winner beat clearly
};

}  // namespace

TEST_CASE("at random problems of the shipped packs the rule's choice serves") {
  Random random(43);
  std::size_t probes = 0, by_cell = 0, number = 0;
  for (const char* pack : {"packs/h200.pack", "packs/h100.pack"}) {
    const Cache file = Cache::open(paths::source(pack), Cache::Mode::read_only);
    for (const FamilyRange& range : file.ranges.all()) {
      if (range.table.empty() || number++ % 4 != 0) continue;
      CAPTURE(range.key.family);
      const Kernel& kernel = find_kernel(range.key.kernel);
      const RangeTable table = RangeTable::parse(range.table, pack);
      const DeviceLimits limits = stored_limits(range.key.hardware);
      const RangePicks picks(kernel, limits, table);
      const ByTheRule rule(kernel, limits, table);
      const Problem first = parse_problem(kernel.name(), kernel.schema(), nullptr, table.cells[0].problem);
      for (int i = 0; i < 60; ++i) {
        Extents extents;
        for (std::size_t axis = 0; axis < kernel.free_dimensions().size(); ++axis) {
          const auto power = static_cast<std::int64_t>(1) << random.below(axis < 2 ? 8 : 17);
          extents.push_back(power +
                            static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(power))));
        }
        try {
          Problem problem = kernel.problem_of(kernel.specialization(first), extents);
          if (rule.interface().has_ragged() && extents[0] > 1 && random.below(2) == 0)
            rule.interface().make_ragged(problem);
          CAPTURE(problem.text());
          const std::optional<RangePicks::Pick> pick = picks.at(problem);
          REQUIRE(pick.has_value());
          REQUIRE(pick->config == rule.at(problem));
          ++probes;
          by_cell += pick->cell != nullptr ? 1 : 0;
        } catch (const BadInput&) {  // no problem has such extents
        }
      }
    }
  }
  CHECK(probes > 700);
  CHECK(by_cell > 100);
}

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
      .ranges.put({kernel.name(), family, fake_device().key, "sources", "nvrtc 13.0", Timing::overlapped},
                  record);
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
  CHECK(by_cell > 100);
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
