// What a range search learns from tables of the kernel's other families.
#include "jobs/range_relatives.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "jobs/range_job.h"
#include "jobs/range_state.h"
#include "kernels/registry.h"
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

std::string cubin_of(const std::string& config) {
  const Space& space = shared_space("router");
  return split_config(space.parse_config(config), space.parameters()).compiled.text();
}

std::set<std::string> cubins_of(const RangeTable& table) {
  std::set<std::string> cubins;
  for (const RangeCell& cell : table.cells) cubins.insert(cubin_of(cell.config));
  return cubins;
}

// A stored table, and what searches under other keys learn from the cache that holds it.
struct StoredTable {
  StoredTable() {
    write_made_up_range(folder.file("usual"));
    write_made_up_range(folder.file(kOtherFamily), kOtherFamily);
    const RangeRequest request = request_for(folder, kMadeUpFamily),
                       other = request_for(folder, kOtherFamily);
    table = search_range(request, {}).table;
    cache.emplace(Cache::open(request.target.cache.path, Cache::Mode::read_write));
    key = cache->ranges().at(0).key;
    session.emplace(
        choose_family_device(other.target.device, other.target.workload),
        SessionOptions{.cache = {.path = folder.file("other.db"), .none = false}, .no_compile = true},
        Events{});
    meter.emplace(*session, settings, context);
  }

  std::vector<std::string> relatives(const RangeKey& of) const {
    return cubins_of_relatives(*cache, of, *session->space_file(), *meter);
  }
  RangeKey key_of(const std::string& family) const {
    RangeKey other = key;
    other.family = family;
    return other;
  }

  const TemporaryFolder folder;
  const TuneSettings settings;
  const JobContext context;
  RangeTable table;
  std::optional<Cache> cache;
  RangeKey key;
  std::optional<Session> session;
  std::optional<CellMeter> meter;
};

}  // namespace

TEST_CASE("a range search tries what tables of the kernel's other families launch") {
  const TemporaryFolder folder;
  write_made_up_range(folder.file("usual"));
  const RangeRequest request = request_for(folder, kMadeUpFamily);
  const std::string& file = request.target.cache.path;
  const RangeResult before = search_range(request, {});
  const auto searched_cells = [&] {
    const Cache cache = Cache::open(file, Cache::Mode::read_only);
    std::vector<RangeCellState> cells;
    for (const FamilyRange& range : cache.ranges()) {
      if (range.key.family == before.family) cells = RangeState::parse(cache.range_progress(range.key)).cells;
    }
    std::erase_if(cells, [](const RangeCellState& cell) { return !cell.searched; });
    return cells;
  };
  const std::vector<RangeCellState> cells = searched_cells();
  REQUIRE(cells.size() >= 4);

  // Cubins that no search of this family has measured everywhere.
  const Recording recording = made_up_recording(256);
  std::vector<std::string> strangers;
  for (ConfigId id = 0; id < recording.space.size() && strangers.size() < 2; ++id) {
    const std::string config = recording.space.config(id).text();
    const std::string cubin = cubin_of(config);
    const auto is_known = [&](const RangeCellState& cell) { return cell.cubins.contains(cubin); };
    if (std::ranges::none_of(cells, is_known) && (strangers.empty() || cubin_of(strangers[0]) != cubin))
      strangers.push_back(config);
  }
  REQUIRE(strangers.size() == 2);
  const auto launch_elsewhere = [&](const std::string& config) {
    Cache cache = Cache::open(file, Cache::Mode::read_write);
    RangeKey key = cache.ranges().at(0).key;
    RangeTable table = before.table;
    const Kernel& kernel = find_kernel("router");
    for (RangeCell& cell : table.cells) {
      Problem other = parse_problem(kernel.name(), kernel.schema(), nullptr, cell.problem);
      other.dims.set("align", Value::integer(128));
      cell.problem = other.text();
      cell.config = config;
      key.family = kernel.specialization(other).text();
    }
    cache.put_range(key, {.table = table.text()});
  };
  const auto is_in_all = [&](const std::string& config) {
    const std::vector<RangeCellState> all = searched_cells();
    return all.size() >= 4 && std::ranges::all_of(all, [&](const RangeCellState& cell) {
             return cell.cubins.contains(cubin_of(config));
           });
  };
  launch_elsewhere(strangers[0]);
  search_range(request, {});  // one that goes on
  CHECK(is_in_all(strangers[0]));
  CHECK_FALSE(is_in_all(strangers[1]));

  launch_elsewhere(strangers[1]);
  RangeRequest fresh = request;
  fresh.settings.fresh = true;
  search_range(fresh, {});
  CHECK(is_in_all(strangers[1]));
}

TEST_CASE("relatives are of the same kernel, GPU and timing") {
  const StoredTable stored;
  const RangeKey key = stored.key_of("another");
  const std::vector<std::string> found = stored.relatives(key);
  CHECK(std::set<std::string>(found.begin(), found.end()) == cubins_of(stored.table));
  CHECK(stored.relatives(stored.key).empty());  // its own table
  RangeKey newer = stored.key;
  newer.source_digest = "other templates";
  CHECK(stored.relatives(newer) == found);
  RangeKey other = key;
  other.kernel = "moe_combine";
  CHECK(stored.relatives(other).empty());
  other = key;
  other.timing = Timing::alone;
  CHECK(stored.relatives(other).empty());
  other = key;
  other.hardware.sm_count = 114;
  CHECK(stored.relatives(other).empty());
}

TEST_CASE("the nearest relatives come first, and damaged tables are left out") {
  StoredTable stored;
  const RangeTable& table = stored.table;
  const RangeKey key = stored.key_of("another"), third = stored.key_of("third");
  const std::size_t all = stored.relatives(key).size();
  // The one that serves all cells comes before those that share them.
  RangeTable one_cubin = table;
  one_cubin.cells.assign(1, table.cells.back());
  stored.cache->put_range(third, {.table = one_cubin.text()});
  CHECK(cubins_of(one_cubin).contains(stored.relatives(key).at(0)));

  // A table of the same family, of other templates, comes before both.
  RangeTable rare = table;
  std::map<std::string, std::size_t> served;
  for (const RangeCell& cell : table.cells) ++served[cubin_of(cell.config)];
  const auto least = std::ranges::min_element(served, {}, [](const auto& one) { return one.second; })->first;
  std::erase_if(rare.cells, [&](const RangeCell& cell) { return cubin_of(cell.config) != least; });
  RangeKey older = key;
  older.source_digest = "other templates";
  stored.cache->put_range(older, {.table = rare.text()});
  CHECK(stored.relatives(key).at(0) == least);
  CHECK(stored.relatives(key).size() == all);

  RangeTable strange = table;
  for (RangeCell& cell : strange.cells) cell.config = "warps=1000";
  stored.cache->put_range(stored.key, {.table = strange.text()});
  stored.cache->put_range(third, {.table = "no table"});
  stored.cache->put_range(older, {.table = strange.text()});
  CHECK(stored.relatives(key).empty());
}
