// `moetune cache merge` and `import` on real files.
#include <csignal>
#include <random>

#include "cache/cache.h"
#include "cache/check.h"
#include "cache/file/database.h"
#include "kernels/plan.h"
#include "tests/cli/tool.h"
#include "tests/paths.h"

using namespace moetune::testing;

namespace {

moetune::WinnerRecord merge_winner(const std::string& stages, double low, double high) {
  moetune::Plan plan;
  plan.unit = {"templates/decode_kernel/decode_kernel.cu", {{"STAGES", stages}}};
  plan.launches.push_back({{.entry = "decode_kernel", .grid = {4, 1, 1}, .block = {128, 1, 1}}, {}});
  moetune::WinnerRecord winner;
  winner.config = "loader=bulk,vector_bytes=16,tile_kib=32,stages=" + stages +
                  ",warps=8,producers=1,blocks_per_sm=1,l2=evict_first";
  winner.plan = Json(plan).dump();
  winner.interface = "interface";
  winner.cubin = {1, 2, 3};
  winner.time_us = (low + high) / 2;
  winner.interval_low_us = low;
  winner.interval_high_us = high;
  winner.provenance = "{}";
  return winner;
}

// Tuned with other sources than today's, so that any size is a problem.
std::int64_t merge_workload(moetune::Cache& cache, int elements) {
  const std::string problem = "elements=" + std::to_string(1024 * elements) + ",dtype=f32,write=all,passes=1";
  return cache.workloads.id({.kernel = "decode_kernel",
                             .problem = problem,
                             .hardware = {.name = "Test GPU", .compute_capability = 90},
                             .source_digest = "0123456789abcdef",
                             .toolchain = "nvrtc 13.0.88"},
                            "f");
}

std::string write_one(const Tool& tool, const std::string& name, const moetune::WinnerRecord& winner) {
  auto cache = moetune::Cache::open(tool.path(name), moetune::Cache::Mode::create);
  cache.winners.put(merge_workload(cache, 1), winner);
  return tool.path(name).string();
}

// In one transaction's worth of rows that takes a while to copy.
std::string write_many(const Tool& tool, const std::string& name, int workloads) {
  auto cache = moetune::Cache::open(tool.path(name), moetune::Cache::Mode::create);
  for (int i = 0; i < workloads; ++i) {
    moetune::WinnerRecord winner = merge_winner("2", 11, 13);
    std::mt19937 random(static_cast<unsigned>(i));
    winner.cubin.resize(20'000);
    for (auto& byte : winner.cubin) byte = static_cast<std::uint8_t>(random());
    cache.winners.put(merge_workload(cache, i + 2), winner);
  }
  return tool.path(name).string();
}

}  // namespace

TEST_CASE("cache merge takes the better winner") {
  Tool tool;
  const std::string into = write_one(tool, "a.db", merge_winner("2", 11, 13));
  const std::string other = write_one(tool, "b.db", merge_winner("3", 9, 10));
  const Ended ended = tool.run({"cache", "merge", into, other, other});
  CHECK(ended.code == 0);
  CHECK(contains(ended.out, "0 winners added, 1 replaced by better ones, 0 kept, 1 the same"));
  CHECK(contains(ended.out, "taken from 2 files"));
  CHECK(document(tool.run({"cache", "merge", into, other, "--json"}))["winners_equal"] == 1);
  CHECK(contains(document(tool.run({"cache", "show", "1", "--cache", into, "--json"}))["config"], "stages=3"));
  CHECK(tool.run({"cache", "check", "--cache", into}).code == 0);
}

TEST_CASE("cache history lists what was replaced, and rollback goes back to it") {
  Tool tool;
  const std::string file = write_one(tool, "a.db", merge_winner("2", 11, 13));
  CHECK(contains(tool.run({"cache", "history", "1", "--cache", file}).out, "No winner of workload 1 was replaced"));
  CHECK(tool.run({"cache", "rollback", "1", "--cache", file}).code == 2);
  const std::string other = write_one(tool, "b.db", merge_winner("3", 5, 6));
  CHECK(tool.run({"cache", "merge", file, other}).code == 0);
  const Ended listed = tool.run({"cache", "history", "1", "--cache", file, "--wide"});
  CHECK(contains(listed.out, "a merge brought a better one"));
  CHECK(contains(listed.out, "stages=2"));
  const Ended back = tool.run({"cache", "rollback", "1", "1", "--cache", file});
  CHECK(back.code == 0);
  CHECK(contains(back.out, "The winner is generation 1 again: loader=bulk"));
  CHECK(document(tool.run({"cache", "show", "1", "--cache", file, "--json"}))["time_us"] == 12.0);
  const Json history = document(tool.run({"cache", "history", "1", "--cache", file, "--json"}))["generations"];
  REQUIRE(history.size() == 2);
  CHECK(history[0]["reason"] == "rollback");
  CHECK(history[0]["interval_us"] == Json({5.0, 6.0}));
  const Ended none = tool.run({"cache", "rollback", "1", "x", "--cache", file});
  CHECK(none.code == 2);
  CHECK(contains(none.err, "'x' is no generation"));
  CHECK(tool.run({"cache", "check", "--cache", file}).code == 0);
}

TEST_CASE("cache import makes the user's cache, and takes packs") {
  Tool tool;
  const std::string other = write_one(tool, "b.db", merge_winner("3", 10, 12));
  const std::string pack = tool.path("b.pack").string();
  CHECK(tool.run({"cache", "export", pack, "--cache", other}).code == 0);
  CHECK(document(tool.run({"cache", "import", pack, other, "--json"}))["winners_added"] == 1);
  CHECK(document(tool.run({"cache", "ls", "--json"}))["winners"] == 1);
  const std::string mine = tool.path("mine.db").string();
  CHECK(document(tool.run({"cache", "import", pack, "--cache", mine, "--json"}))["cache"] == mine);
}

TEST_CASE("cache complete finds what no table lacks, and names those that it leaves as they are") {
  Tool tool;
  const std::string file = tool.path("a.db").string();
  REQUIRE(tool.run({"cache", "import", paths::source("packs/h100.pack"), "--cache", file}).code == 0);
  const Json none = document(tool.run({"cache", "complete", "--cache", file, "--json"}));
  CHECK(none["added"] == 0);
  CHECK(none["tables"].size() == 51);
  {
    moetune::Cache cache = moetune::Cache::open(file, moetune::Cache::Mode::read_write);
    moetune::FamilyRange range = cache.ranges.of_family("moe_combine", "hidden=4096,top_k=2").at(0);
    const moetune::RangeRecord record = cache.ranges.record(range);
    range.key.toolchain = "nvrtc 9.0.1";
    cache.ranges.put(range.key, record);
  }
  const Ended again = tool.run({"cache", "complete", "--cache", file, "--json"});
  CHECK(again.code == 1);
  CHECK(contains(again.err, "is left as it is: it was compiled by nvrtc 9.0.1, and here is nvrtc "));
  const Json tables = document(again)["tables"];
  CHECK(tables.size() == 52);
  for (const Json& table : tables) CHECK(table["added"].empty());
}

TEST_CASE("cache merge and import refuse what they cannot do, and change nothing") {
  Tool tool;
  const std::string into = write_one(tool, "a.db", merge_winner("2", 11, 13));
  const std::string untrue = write_one(tool, "b.db", merge_winner("3", 12, 10));
  moetune::Database(into, moetune::Database::Access::read_write, std::chrono::seconds(5)).set_journal("delete");
  const std::string before = read_text(into);
  struct Refusal {
    std::vector<std::string> arguments;
    int code;
    std::string words;
  };
  for (const auto& [arguments, code, words] :
       {Refusal{{"merge", into}, 2, "which FILE? merge needs one"},
        {{"merge"}, 2, "which INTO? merge needs one"},
        {{"import"}, 2, "which FILE? import needs one"},
        {{"merge", into, into}, 2, "is the file to merge into"},
        {{"merge", into, tool.path("none.db").string()}, 2, "there is no cache at"},
        {{"merge", into, untrue, "--cache", into}, 2, "--cache: merge names its cache as the first word"},
        {{"rm", "1", "2"}, 2, "unexpected word '2' after the KEY"},
        {{"merge", into, untrue}, 3, "b.db: winner 1 (decode_kernel elements=1024"},
        {{"import", untrue, "--cache", into}, 3, "its interval is 12 to 10 µs; nothing was merged"}}) {
    std::vector<std::string> line = arguments;
    line.insert(line.begin(), "cache");
    const Ended ended = tool.run(line);
    CAPTURE(ended.err);
    CHECK(ended.code == code);
    CHECK(contains(ended.err, words));
    CHECK(read_text(into) == before);
  }
}

TEST_CASE("a merge that is killed at any point leaves the cache as it was or as it will be") {
  Tool tool;
  const std::string many = write_many(tool, "many.db", 150);
  const std::string sound = write_one(tool, "a.db", merge_winner("2", 11, 13));
  moetune::Database(sound, moetune::Database::Access::read_write, std::chrono::seconds(5)).set_journal("delete");
  const double whole = tool.run({"cache", "merge", tool.path("warm.db").string(), many}).seconds;
  int before = 0, after = 0;
  for (int round = 0; round < 20; ++round) {
    const std::filesystem::path into = tool.path("into" + std::to_string(round) + ".db");
    std::filesystem::copy_file(sound, into);
    const auto merge = tool.start({"cache", "merge", into.string(), many});
    std::this_thread::sleep_for(std::chrono::duration<double>(whole * 1.2 * round / 19));
    merge->send(SIGKILL);
    merge->wait();
    const auto cache = moetune::Cache::open(into, moetune::Cache::Mode::read_write);
    const std::int64_t winners = summary_of(cache).winners;
    CHECK((winners == 1 || winners == 151));
    CHECK(summary_of(cache).workloads == winners);
    CHECK(check_cache(cache).empty());
    ++(winners == 1 ? before : after);
  }
  MESSAGE("as before: ", before, ", as after: ", after);
  CHECK(before > 0);
}
