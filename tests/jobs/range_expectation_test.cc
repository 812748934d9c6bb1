// What a range search expects between its cells, on recordings that are made up.
#include "jobs/range_expectation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>

#include "base/error.h"
#include "cache/cache.h"
#include "cache/ranges.h"
#include "jobs/range_job.h"
#include "jobs/range_state.h"
#include "ranges/grid.h"
#include "tests/jobs/made_up_range.h"
#include "tests/jobs/temporary_folder.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

// Enough cells for a model of them.
// `odd`: at each shape some of the configurations, others at each, take half as long again.
RangeResult searched(const TemporaryFolder& folder, const std::string& cache = "cache.db", bool odd = false) {
  if (!std::filesystem::exists(folder.file("recordings"))) {
    std::filesystem::create_directories(folder.file("recordings"));
    for (const std::int64_t tokens :
         {1, 2, 3, 4, 5, 7, 9, 12, 16, 21, 28, 37, 48, 64, 84, 111, 256, 400, 446, 1024, 3000, 4096}) {
      Recording recording = made_up_recording(tokens);
      for (ConfigId id = 0; odd && id < recording.space.size(); ++id) {
        const std::string name = std::to_string(tokens) + " " + recording.space.config(id).text();
        if (made_up_unit(name) < 0.4) recording.trials[id].time_us *= 1.5F;
      }
      write_recording(recording, folder.file("recordings") + "/" + std::to_string(tokens) + ".json.zst");
    }
  }
  RangeRequest request;
  request.target.workload = {.kernel = "router", .problem = kMadeUpFamily, .preset = ""};
  request.target.device = "replay:" + folder.file("recordings");
  request.target.cache = {.path = folder.file(cache), .none = false};
  request.over = "tokens=1..4096";
  request.settings.strategy = "local";
  request.settings.budget = 30;
  request.warm_budget = request.shape_budget = 12;
  request.no_compile = true;
  return search_range(request, {});
}

std::optional<std::int64_t> rounded_middle(std::int64_t a, std::int64_t b) {
  const std::int64_t middle = geometric_middle(a, b);
  return middle > a && middle < b ? std::optional(middle) : std::nullopt;
}

}  // namespace

TEST_CASE("an axis gets coordinates between those of the cells, the widest gaps first") {
  CHECK(finer_axis({64, 4, 16, 16}, 2, 10, rounded_middle) == std::vector<std::int64_t>{4, 16, 64});
  CHECK(finer_axis({4, 16, 64}, 1, 10, rounded_middle) == std::vector<std::int64_t>{4, 8, 16, 32, 64});
  CHECK(finer_axis({4, 64, 128}, 1, 4, rounded_middle) == std::vector<std::int64_t>{4, 16, 64, 128});
  CHECK(finer_axis({1, 2, 3}, 0.1, 10, rounded_middle) == std::vector<std::int64_t>{1, 2, 3});
  const auto none = [](std::int64_t, std::int64_t) { return std::nullopt; };
  CHECK(finer_axis({4, 64}, 1, 10, none) == std::vector<std::int64_t>{4, 64});
}

TEST_CASE("of more coordinates than a grid may have the ends stay, and others between them") {
  std::vector<std::int64_t> cells(200);
  std::iota(cells.begin(), cells.end(), 1);
  const std::vector<std::int64_t> axis = finer_axis(cells, 0.1, 128, rounded_middle);
  REQUIRE(axis.size() == ExpectedGrid::kMostCoordinates);
  CHECK(axis.front() == 1);
  CHECK(axis.back() == 200);
  for (std::size_t i = 1; i < axis.size(); ++i) {
    CHECK(axis[i] > axis[i - 1]);
    CHECK(axis[i] <= axis[i - 1] + 2);
  }
}

TEST_CASE("between its cells a table has a choice for every point, of its own cubins and legal there") {
  const TemporaryFolder folder;
  const RangeResult result = searched(folder);
  REQUIRE(result.table.cells.size() >= 12);
  const ExpectedChoices& expected = result.table.expected;
  REQUIRE(expected.grids.size() == 1);
  const ExpectedGrid& grid = expected.grids[0];
  CHECK_FALSE(grid.uneven);
  REQUIRE(grid.axes.size() == 1);
  CHECK(grid.axes[0].size() > result.table.cells.size());
  CHECK(grid.axes[0].front() == 1);
  CHECK(grid.axes[0].back() == 4096);
  CHECK(expected.points() == grid.choices.size());
  const Space& space = shared_space("router");
  const DeviceLimits limits = made_up_recording(1).limits;
  for (std::size_t i = 0; i < grid.choices.size(); ++i) {
    REQUIRE(grid.choices[i] != ExpectedGrid::kNone);
    const std::int64_t tokens = grid.axes[0][i];
    const Problem problem =
        parse_problem("router", find_kernel("router").schema(), nullptr, "tokens=" + std::to_string(tokens));
    const Config config = space.parse_config(expected.configs[grid.choices[i]]);
    CAPTURE(tokens);
    CHECK(space.why_illegal(config, expression_environment(problem, limits)).empty());
    const std::string cubin = split_config(config, space.parameters()).compiled.text();
    CHECK(std::ranges::find(result.cubins, cubin) != result.cubins.end());
  }
  // What serves most points is not what is fast nowhere.
  double expected_us = 0, best_us = 0;
  for (const RangeCell& cell : result.table.cells) {
    const Problem problem = parse_problem("router", find_kernel("router").schema(), nullptr, cell.problem);
    const auto place = std::ranges::find(grid.axes[0], problem["tokens"]);
    REQUIRE(place != grid.axes[0].end());
    const std::uint32_t choice = grid.choices[static_cast<std::size_t>(place - grid.axes[0].begin())];
    expected_us += std::log(made_up_time(space.parse_config(expected.configs[choice]), space.parameters(),
                                         static_cast<double>(problem["tokens"])));
    best_us += std::log(cell.best_us);
  }
  CHECK(expected_us - best_us < 0.03 * static_cast<double>(result.table.cells.size()));
}

TEST_CASE("nothing is expected to be the fastest that was clearly slower in the nearest cell that tried it") {
  const TemporaryFolder folder;
  const RangeResult result = searched(folder, "cache.db", true);
  REQUIRE(result.table.expected.grids.size() == 1);
  const ExpectedGrid& grid = result.table.expected.grids[0];
  const Cache cache = Cache::open(folder.file("cache.db"), Cache::Mode::read_only);
  const RangeState state = RangeState::parse(cache.range_progress(cache.ranges().at(0).key));
  std::set<std::string> cubins;
  for (const RangeCell& cell : result.table.cells)
    cubins.insert(
        split_config(shared_space("router").parse_config(cell.config), shared_space("router").parameters())
            .compiled.text());
  const auto tokens_of = [](const std::string& problem) {
    return std::stoll(problem.substr(problem.find('=') + 1));
  };
  const auto nearest = [&](const auto& cells, std::int64_t tokens) {
    return std::ranges::min_element(
        cells, {}, [&](const auto& cell) { return octaves_between(tokens_of(cell.problem), tokens); });
  };
  const DeviceLimits limits = made_up_recording(1).limits;
  const auto is_legal = [&](const std::string& config, std::int64_t tokens) {
    const Problem problem =
        parse_problem("router", find_kernel("router").schema(), nullptr, "tokens=" + std::to_string(tokens));
    const Space& space = shared_space("router");
    return space.why_illegal(space.parse_config(config), expression_environment(problem, limits)).empty();
  };
  std::size_t judged = 0;
  for (std::size_t i = 0; i < grid.choices.size(); ++i) {
    if (grid.choices[i] == ExpectedGrid::kNone) continue;
    const std::string& choice = result.table.expected.configs.at(grid.choices[i]);
    const std::string& around = nearest(result.table.cells, grid.axes[0][i])->config;
    if (around == choice || !is_legal(around, grid.axes[0][i])) continue;
    std::vector<RangeCellState> tried;
    std::ranges::copy_if(state.cells, std::back_inserter(tried),
                         [&](const RangeCellState& cell) { return cell.looks.contains(choice); });
    if (tried.empty()) continue;
    const RangeCellState& cell = *nearest(tried, grid.axes[0][i]);
    double fastest = std::numeric_limits<double>::infinity();
    for (const auto& [config, look] : cell.looks) {
      if (cubins.contains(look.cubin)) fastest = std::min(fastest, look.time_us);
    }
    ++judged;
    CHECK_MESSAGE(cell.looks.at(choice).time_us <= 1.15 * fastest, grid.axes[0][i]);
  }
  CHECK(judged >= 3);
}

TEST_CASE("equal measurements expect the same, and a search that goes on keeps it") {
  const TemporaryFolder folder;
  const RangeResult one = searched(folder, "one.db"), two = searched(folder, "two.db");
  CHECK(one.table == two.table);
  CHECK(searched(folder, "one.db").table == one.table);
  const Cache cache = Cache::open(folder.file("one.db"), Cache::Mode::read_only);
  CHECK(RangeTable::parse(cache.ranges().at(0).table, "the table") == one.table);
}

TEST_CASE("a range of few cells expects nothing") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("recordings"));
  for (const std::int64_t tokens : {1, 16, 256, 4096})
    write_recording(made_up_recording(tokens),
                    folder.file("recordings") + "/" + std::to_string(tokens) + ".json.zst");
  const RangeResult result = searched(folder);
  CHECK_FALSE(result.table.cells.empty());
  CHECK(result.table.expected.empty());
}
