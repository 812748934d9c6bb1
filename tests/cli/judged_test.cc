// What a repaired reference means for results on a scripted GPU, with the real compiler: trials, winners and cells of
// ranges are judged again, and what nothing was changed of is resumed.
#include <algorithm>
#include <fstream>
#include <functional>

#include "cache/cache.h"
#include "cache/ranges.h"
#include "jobs/range/state.h"
#include "tests/cli/scripted_gpu.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

// What judges, and nothing that candidates compile from.
void touch_reference(const ScriptedGpu& gpu) {
  std::ofstream(gpu.data() / "templates/decode_kernel/reference.cu", std::ios::app) << "\n// repaired\n";
}

void search_range(ScriptedGpu& gpu) {
  const Ended ended =
      gpu.tool.run({"search", "decode_kernel", "--over", "elements=1024..16384", "--budget", "2", "--shapes", "0"});
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
}

// What the search has left; `change` makes of it what the next one finds.
RangeState range_state(const ScriptedGpu& gpu, const std::function<void(RangeState&)>& change = {}) {
  Cache cache = Cache::open(gpu.tool.path("xdg") / "moetune" / "moetune.db", Cache::Mode::read_write);
  const FamilyRange range = cache.ranges.all().at(0);
  const RangeState found = RangeState::parse(cache.ranges.progress(range.key));
  if (change) {
    RangeState changed = found;
    change(changed);
    cache.ranges.put(range.key, {.table = range.table, .progress = changed.text()});
  }
  return found;
}

}  // namespace

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
  // The time of the first cell's cubin, which is set to `mark` for the next search.
  const auto cubin_time = [&](double mark) {
    const RangeState found = range_state(gpu, [&](RangeState& state) {
      state.cells.at(0).cubins.begin()->second.time_us = mark;
      state.withdrawn = {"a mark"};
    });
    return found.cells.at(0).cubins.begin()->second.time_us;
  };
  const auto withdrawn = [&] { return range_state(gpu).withdrawn.size(); };
  constexpr double kMark = 7.25;
  search_range(gpu);
  const double measured = cubin_time(kMark);
  CHECK(measured != kMark);
  search_range(gpu);
  CHECK(withdrawn() == 1);
  CHECK(cubin_time(kMark) == kMark);
  touch_reference(gpu);
  search_range(gpu);
  CHECK(withdrawn() == 0);
  CHECK(cubin_time(kMark) != kMark);
}

TEST_CASE("a cell in which nothing ran is measured again when the search goes on") {
  ScriptedGpu gpu;
  // As a GPU leaves a cell on which nothing runs any more.
  const auto fail = [](RangeState& state) {
    for (auto& [name, measured] : state.cells.at(1).cubins) measured = {};
    state.cells.at(1).measured_default.reset();
  };
  search_range(gpu);
  const auto runs = [](const MeasuredCell& cell) {
    return std::ranges::any_of(cell.cubins, [](const auto& cubin) { return !cubin.second.config.empty(); });
  };
  REQUIRE(runs(range_state(gpu, fail).cells.at(1)));
  REQUIRE_FALSE(runs(range_state(gpu).cells.at(1)));
  search_range(gpu);
  CHECK(runs(range_state(gpu).cells.at(1)));
}
