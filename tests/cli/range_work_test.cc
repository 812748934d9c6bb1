// Ranges beyond a single search: recorded on a (scripted) GPU and replayed, tuned and retuned as part of a list.
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "cache/cache.h"
#include "jobs/range/state.h"
#include "ranges/range_table.h"
#include "tests/cli/scripted_gpu.h"
#include "tests/jobs/made_up_range.h"
#include "tests/paths.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

constexpr const char* kList = R"({"moetune_workloads": 1, "workloads": [
  {"kernel": "router", "ranges": {"tokens": "1..4096"}, "weight": 3}]})";

std::vector<std::string> over_list(const Tool& tool, const std::string& verb, std::vector<std::string> more = {}) {
  std::vector<std::string> command = {verb,
                                      "--workloads",
                                      tool.path("w.json").string(),
                                      "--device",
                                      "replay:" + tool.path("recordings").string(),
                                      "--no-compile",
                                      "--budget",
                                      "40",
                                      "--json"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

}  // namespace

TEST_CASE("shapes are recorded on a GPU, a file each, and a range search replays their folder") {
  ScriptedGpu gpu;
  Tool& tool = gpu.tool;
  const std::string folder = tool.path("recordings").string();
  std::filesystem::create_directory(folder);
  for (const char* const elements : {"1024", "4096", "8192", "16384"}) {
    const Ended recorded = tool.run({"record", "decode_kernel", "--elements", elements, "--sample", "4", "--output",
                                     folder + "/" + elements + ".json.zst", "--json"});
    CAPTURE(recorded.err);
    REQUIRE(recorded.code == 0);
    CHECK(document(recorded)["legal"].get<int>() <= 4);
    CHECK(document(recorded)["legal"].get<int>() > 0);
  }

  const Ended replayed =
      tool.run({"search", "decode_kernel", "--over", "elements=1024..16384", "--device", "replay:" + folder,
                "--no-compile", "--cache", tool.path("other.db").string(), "--json"});
  CAPTURE(replayed.err);
  REQUIRE(replayed.code == 0);
  const Json found = document(replayed);
  CHECK(found["cells"].size() == 3);
  CHECK(found["certificate"]["shapes"] == 1);
  CHECK(found["timing"] == "overlapped");  // which a recording has, whatever is asked for
  CHECK(contains(replayed.err, "A recording holds times of overlapping launches: they stand for chained ones."));
}

TEST_CASE("a night tunes a missing range, leaves it alone, and looks again at one that loses too much") {
  Tool tool;
  write_made_up_range(tool.path("recordings"));
  tool.write("w.json", kList);
  const Ended first = tool.run(over_list(tool, "retune"));
  CAPTURE(first.err);
  REQUIRE(first.code == 0);
  const Json night = document(first);
  REQUIRE(night["reworked"].size() == 1);
  CHECK(night["reworked"][0]["verdict"] == "tuned");
  CHECK(night["reworked"][0]["over"] == "tokens=1..4096");
  // At most for what it loses between its cells, where the default serves.
  const Json retuned = document(tool.run(over_list(tool, "retune")));
  for (const Json& item : retuned["plan"]["stale"]) CHECK(item["causes"] == Json::array({"regret"}));

  const std::filesystem::path file = tool.path("xdg") / "moetune" / "moetune.db";
  std::string good, bad;
  {
    Cache cache = Cache::open(file, Cache::Mode::read_write);
    const FamilyRange range = cache.ranges.all().at(0);
    good = range.table;
    RangeTable table = RangeTable::parse(good, "it");
    // One configuration for all cells, and a certificate that saw what that costs.
    for (RangeCell& cell : table.cells) cell.config = table.cells.back().config;
    table.certificate.p95 = table.certificate.worst = 0.5;
    bad = table.text();
    cache.ranges.put(range.key,
                     {.table = bad, .progress = cache.ranges.progress(range.key), .stored_at = "2999-01-01T00:00:00Z"});
  }
  const Ended second = tool.run(over_list(tool, "retune"));
  CAPTURE(second.err);
  const Json repaired = document(second);
  REQUIRE(repaired["reworked"].size() == 1);
  CHECK(repaired["plan"]["stale"][0]["causes"] == Json::array({"regret"}));
  CHECK(repaired["reworked"][0]["verdict"] == "improved");
  const Cache cache = Cache::open(file, Cache::Mode::read_only);
  const std::string now = cache.ranges.all().at(0).table;
  CHECK(now != bad);
  const RangeTable before = RangeTable::parse(good, "it"), after = RangeTable::parse(now, "it");
  CHECK(after.cells.size() >= before.cells.size());
  CHECK(after.worst_cell() <= 0.03);
}

TEST_CASE("make_pack tunes every family of a kernel by its range; of recordings it makes no pack") {
  const Tool tool;
  const std::string source = paths::source();
  const std::string command = "XDG_CACHE_HOME='" + tool.path("xdg").string() +
                              "' MOETUNE=\"$MOETUNE_BINARY\" python3 '" + source + "/scripts/make_pack' '" +
                              tool.path("a.pack").string() + "' --cache '" + tool.path("a.db").string() +
                              "' --kernel decode_attention --preset mixtral-8x7b --pages 0 --no-compile --budget 40"
                              " --over batch=1..128,context=2k..8k --device 'replay:" +
                              source + "/replay/recordings' > '" + tool.path("out").string() + "' 2>&1";
  CHECK(std::system(command.c_str()) == 0);
  const std::string out = read_text(tool.path("out"));
  CAPTURE(out);
  CHECK(contains(out, "mixtral-8x7b"));
  CHECK(contains(out, "4 of   4 cells"));
  CHECK(contains(out, "no server launches recordings"));
  CHECK_FALSE(std::filesystem::exists(tool.path("a.pack")));
  CHECK(Cache::open(tool.path("a.db"), Cache::Mode::read_only).ranges.all().size() == 1);
}
