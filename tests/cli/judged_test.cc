// What a repaired reference means for results on a scripted GPU, with the real compiler: trials, winners and cells of
// ranges are judged again, and what nothing was changed of is resumed.
#include <algorithm>
#include <fstream>
#include <utility>

#include "cache/cache.h"
#include "cache/ranges.h"
#include "jobs/range_state.h"
#include "tests/cli/scripted_gpu.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

// What judges, and nothing that candidates compile from.
void touch_reference(const ScriptedGpu& gpu) {
  std::ofstream(gpu.data() / "templates/decode_kernel/reference.cu", std::ios::app) << "\n// repaired\n";
}

}  // namespace

TEST_CASE(
    "after a repair of reference.cu a search tries again what it had resumed before, in the same workload") {
  ScriptedGpu gpu;
  const auto search = [&] {
    const Json found = document(
        gpu.tool.run({"search", "decode_kernel", "--problem", "elements=16384", "--budget", "3", "--json"}));
    CHECK(found["trials"]["total"] == 2);  // all that is legal
    return found["trials"]["resumed"].get<int>();
  };
  CHECK(search() == 0);
  CHECK(search() == 2);
  touch_reference(gpu);
  CHECK(search() == 0);
  CHECK(search() == 2);
  CHECK(document(gpu.tool.run({"cache", "ls", "--json"}))["workloads"].size() == 1);
}

TEST_CASE("a night judges a winner again by a repaired reference, once") {
  ScriptedGpu gpu;
  Tool& tool = gpu.tool;
  tool.write("w.json", R"({"moetune_workloads": 1, "workloads": [
      {"kernel": "decode_kernel", "shapes": ["elements=1024"]}]})");
  const auto night = [&](std::vector<std::string> more = {}) {
    std::vector<std::string> command = {
        "retune", "--workloads", tool.path("w.json").string(), "--budget", "2", "--threads", "1", "--json"};
    command.insert(command.end(), more.begin(), more.end());
    return document(tool.run(command));
  };
  CHECK(night()["reworked"][0]["verdict"] == "tuned");
  CHECK(night()["plan"]["stale"].empty());
  touch_reference(gpu);
  CHECK(night({"--dry-run"})["plan"]["stale"][0]["causes"] == Json{"judge"});
  CHECK(night()["reworked"][0]["verdict"] == "kept");
  CHECK(night()["plan"]["stale"].empty());
}

TEST_CASE("cells of a range are measured again after a repair of reference.cu, and stay if there was none") {
  ScriptedGpu gpu;
  const auto search = [&] {
    const Ended ended = gpu.tool.run(
        {"search", "decode_kernel", "--over", "elements=1024..16384", "--budget", "2", "--shapes", "0"});
    CAPTURE(ended.err);
    REQUIRE(ended.code == 0);
  };
  // The time of the first cell's cubin, which is set to `mark` for the next search.
  const auto cubin_time = [&](double mark) {
    Cache cache = Cache::open(gpu.tool.path("xdg") / "moetune" / "moetune.db", Cache::Mode::read_write);
    const FamilyRange range = cache.ranges().at(0);
    RangeState state = RangeState::parse(cache.range_progress(range.key));
    double& time_us = state.cells.at(0).cubins.begin()->second.time_us;
    const double found = std::exchange(time_us, mark);
    state.withdrawn = {"a mark"};
    cache.put_range(range.key, {.table = range.table, .progress = state.text()});
    return found;
  };
  const auto withdrawn = [&] {
    const Cache cache = Cache::open(gpu.tool.path("xdg") / "moetune" / "moetune.db", Cache::Mode::read_only);
    return RangeState::parse(cache.range_progress(cache.ranges().at(0).key)).withdrawn.size();
  };
  constexpr double kMark = 7.25;
  search();
  const double measured = cubin_time(kMark);
  CHECK(measured != kMark);
  search();
  CHECK(withdrawn() == 1);
  CHECK(cubin_time(kMark) == kMark);
  touch_reference(gpu);
  search();
  CHECK(withdrawn() == 0);
  CHECK(cubin_time(kMark) != kMark);
}

TEST_CASE("a cell in which nothing ran is measured again when the search goes on") {
  ScriptedGpu gpu;
  const auto search = [&] {
    const Ended ended = gpu.tool.run(
        {"search", "decode_kernel", "--over", "elements=1024..16384", "--budget", "2", "--shapes", "0"});
    CAPTURE(ended.err);
    REQUIRE(ended.code == 0);
  };
  // As it is stored; then, if it `fails`, as a GPU leaves it on which nothing runs any more.
  const auto state = [&](bool fails) {
    Cache cache = Cache::open(gpu.tool.path("xdg") / "moetune" / "moetune.db", Cache::Mode::read_write);
    const FamilyRange range = cache.ranges().at(0);
    RangeState found = RangeState::parse(cache.range_progress(range.key)), failed = found;
    for (auto& [name, measured] : failed.cells.at(1).cubins) measured = {};
    failed.cells.at(1).fallback.reset();
    if (fails) cache.put_range(range.key, {.table = range.table, .progress = failed.text()});
    return found;
  };
  search();
  const auto runs = [](const RangeCellState& cell) {
    return std::ranges::any_of(cell.cubins, [](const auto& cubin) { return !cubin.second.config.empty(); });
  };
  REQUIRE(runs(state(true).cells.at(1)));
  REQUIRE_FALSE(runs(state(false).cells.at(1)));
  search();
  CHECK(runs(state(false).cells.at(1)));
}
