// What a range search learns from tables of the kernel's other families.
#include "jobs/range_relatives.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "jobs/range_job.h"
#include "jobs/range_state.h"
#include "ranges/range_table.h"
#include "tests/jobs/made_up_range.h"
#include "tests/jobs/temporary_folder.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

constexpr const char* kOtherFamily = "align=128";

RangeRequest request_for(const TemporaryFolder& folder, const std::string& family) {
  RangeRequest request;
  request.target.workload = {.kernel = "router", .problem = family, .preset = ""};
  request.target.device = "replay:" + folder.file(family.empty() ? "usual" : family);
  request.target.cache = {.path = folder.file("cache.db"), .none = false};
  request.over = "tokens=1..4096";
  request.settings.strategy = "random";
  request.settings.budget = 30;
  request.warm_budget = 3;
  request.certificate_shapes = 0;
  request.no_compile = true;
  return request;
}

std::set<std::string> cubins_of(const RangeTable& table) {
  std::set<std::string> cubins;
  for (const RangeCell& cell : table.cells)
    cubins.insert(
        split_config(shared_space("router").parse_config(cell.config), shared_space("router").parameters())
            .compiled.text());
  return cubins;
}

}  // namespace

TEST_CASE("a range search tries what tables of the kernel's other families launch") {
  const TemporaryFolder folder;
  write_made_up_range(folder.file("usual"));
  write_made_up_range(folder.file(kOtherFamily), kOtherFamily);
  const RangeRequest one = request_for(folder, kMadeUpFamily), other = request_for(folder, kOtherFamily);
  const auto searched_cells = [&](const RangeResult& result) {
    const Cache cache = Cache::open(one.target.cache.path, Cache::Mode::read_only);
    std::vector<RangeCellState> searched;
    for (const FamilyRange& range : cache.ranges()) {
      if (range.key.family != result.family) continue;
      searched = RangeState::parse(cache.range_progress(range.key)).cells;
    }
    std::erase_if(searched, [](const RangeCellState& cell) { return !cell.searched; });
    return searched;
  };
  const auto all_have = [](const std::vector<RangeCellState>& cells, const std::set<std::string>& cubins) {
    return std::ranges::all_of(cells, [&](const RangeCellState& cell) {
      return std::ranges::all_of(cubins, [&](const std::string& name) { return cell.cubins.contains(name); });
    });
  };
  const std::set<std::string> of_one = cubins_of(search_range(one, {}).table);
  REQUIRE(of_one.size() >= 2);
  const RangeResult second = search_range(other, {});
  REQUIRE(searched_cells(second).size() >= 4);
  CHECK(all_have(searched_cells(second), of_one));

  // A search that goes on meets what has come since.
  const std::set<std::string> of_other = cubins_of(second.table);
  const RangeResult again = search_range(one, {});
  REQUIRE(searched_cells(again).size() >= 4);
  CHECK(all_have(searched_cells(again), of_other));
}

TEST_CASE("relatives are of the same kernel, GPU and timing, and damaged tables are left out") {
  const TemporaryFolder folder;
  write_made_up_range(folder.file("usual"));
  write_made_up_range(folder.file(kOtherFamily), kOtherFamily);
  const RangeRequest request = request_for(folder, kMadeUpFamily);
  const RangeTable table = search_range(request, {}).table;
  Cache cache = Cache::open(request.target.cache.path, Cache::Mode::read_write);
  const FamilyRange stored = cache.ranges().at(0);

  Session session(choose_family_device(request_for(folder, kOtherFamily).target.device,
                                       request_for(folder, kOtherFamily).target.workload),
                  {.cache = {.path = folder.file("other.db"), .none = false}, .no_compile = true}, {});
  const TuneSettings settings;
  const JobContext context;
  const CellMeter meter(session, settings, context);
  const auto relatives = [&](const RangeKey& key) {
    return cubins_of_relatives(cache, key, *session.space_file(), meter);
  };
  RangeKey key = stored.key;
  key.family = "another";
  const std::vector<std::string> found = relatives(key);
  CHECK(std::set<std::string>(found.begin(), found.end()) == cubins_of(table));
  CHECK(relatives(stored.key).empty());  // its own table
  RangeKey other = key;
  other.kernel = "moe_combine";
  CHECK(relatives(other).empty());
  other = key;
  other.timing = Timing::alone;
  CHECK(relatives(other).empty());
  other = key;
  other.hardware.sm_count = 114;
  CHECK(relatives(other).empty());

  // The one that serves all cells comes before those that share them.
  RangeTable one_cubin = table;
  one_cubin.cells.assign(1, table.cells.back());
  RangeKey third = stored.key;
  third.family = "third";
  cache.put_range(third, {.table = one_cubin.text()});
  CHECK(cubins_of(one_cubin).contains(relatives(key).at(0)));

  RangeTable strange = table;
  for (RangeCell& cell : strange.cells) cell.config = "warps=1000";
  cache.put_range(stored.key, {.table = strange.text()});
  cache.put_range(third, {.table = "no table"});
  CHECK(relatives(key).empty());
}
