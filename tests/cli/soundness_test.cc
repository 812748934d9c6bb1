// Every command says the same of a record that cannot be true, though its digests are right.
#include <set>

#include "cache/cache.h"
#include "jobs/session/kernel_files.h"
#include "tests/cli/tool.h"
#include "tests/soundness/forgeries.h"

using namespace moetune::testing;

namespace {

// One sound winner, and room for another.
moetune::Cache new_cache(const std::string& path, const std::string& sources) {
  std::filesystem::remove(path);
  moetune::Cache cache = moetune::Cache::open(path, moetune::Cache::Mode::create);
  const moetune::Workload of = decode_workload(16, 512, sources);
  cache.winners.put(cache.workloads.id(of.key, of.family), decode_winner(of));
  return cache;
}

bool names(const Json& problems, const std::string& where, const std::string& what) {
  return std::ranges::any_of(problems, [&](const Json& one) {
    return contains(one["where"].get<std::string>(), where) && contains(one["what"].get<std::string>(), what);
  });
}

// What of a cache with one sound winner and one forged record must hold of all commands but report.
void check_commands(Tool& tool, const std::string& path, const std::string& where, const std::string& what,
                    const char* left_out) {
  const Ended checked = tool.run({"cache", "check", "--json", "--cache", path});
  CHECK(checked.code == 3);
  const Json problems = document(checked)["problems"];
  CAPTURE(problems.dump());
  CHECK(names(problems, where, what));
  const std::string pack = tool.path("made.pack").string(), into = tool.path("into.db").string();
  const Json exported = document(tool.run({"cache", "export", pack, "--json", "--cache", path}));
  CHECK(exported["winners"] == 1);
  CHECK(exported["ranges"] == 0);
  CHECK(exported["left_out"][left_out] == 1);
  CHECK(tool.run({"cache", "check", pack}).code == 0);
  const Ended merged = tool.run({"cache", "merge", into, path});
  CHECK(merged.code == 3);
  CHECK(contains(merged.err, "nothing was merged"));
  CHECK_FALSE(std::filesystem::exists(into));
  CHECK(tool.run({"cache", "ls", "--cache", path}).code == 0);
}

// Whether a list for a terminal leaves the judgement to `cache check`: of plans and documents beside the figures.
bool is_beyond_lists(const std::string& what) {
  const char* const kinds[] = {"its launch plan", "its cubin takes", "its time_us of", "its times by timing",
                               "its provenance"};
  return std::ranges::any_of(kinds, [&](const char* kind) { return what.starts_with(kind); });
}

}  // namespace

TEST_CASE("a sound winner and a sound table are so to every command") {
  Tool tool;
  const std::string path = tool.path("c.db").string(), sources = moetune::kernel_source_digest("decode_attention");
  new_cache(path, sources).ranges.put(decode_range_key(sources), decode_record(decode_table().text()));
  CHECK(document(tool.run({"cache", "check", "--json", "--cache", path}))["problems"].empty());
  const Json report = document(tool.run({"report", "--json", "--cache", path}));
  CHECK(report["workloads"][0]["damaged"] == false);
  CHECK(report["ranges"].size() == 1);
  CHECK(report["damaged_tables"].empty());
  const Json exported =
      document(tool.run({"cache", "export", tool.path("p.pack").string(), "--json", "--cache", path}));
  CHECK(exported["winners"] == 1);
  CHECK(exported["ranges"] == 1);
  CHECK(tool.run({"cache", "merge", tool.path("into.db").string(), path}).code == 0);
}

// One of each kind: tests/soundness/soundness_test.cc judges all.
TEST_CASE("check, report, export and merge say the same of a forged winner") {
  const std::set<std::string> kinds = {"it took -3", "its times by timing cannot be read",
                                       "its launch plan cannot be read", "its cubin is empty",
                                       "of another family than it is stored for"};
  Tool tool;
  const std::string path = tool.path("c.db").string(), sources = moetune::kernel_source_digest("decode_attention");
  for (const ForgedWinner& forged : forged_winners()) {
    if (!kinds.contains(forged.what)) continue;
    CAPTURE(forged.what);
    moetune::Workload of = decode_workload(8, 256, sources);
    moetune::WinnerRecord winner = decode_winner(of);
    forged.forge(of, winner);
    const bool is_of_workload = of.family != decode_workload(8, 256, sources).family ||
                                of.key.problem != decode_workload(8, 256, sources).key.problem ||
                                of.key.hardware.text() != h200_key().text();
    {
      moetune::Cache cache = new_cache(path, sources);
      cache.winners.put(cache.workloads.id(of.key, of.family), winner);
    }
    check_commands(tool, path, is_of_workload ? "workload 2" : "winner 2", forged.what, "damaged");
    if (forged.what == "its cubin is empty") continue;  // report reads no cubins
    const Ended reported = tool.run({"report", "--json", "--cache", path});
    CHECK(reported.code == 0);
    CHECK(contains(reported.err, forged.what));
    const Json shown = document(reported);
    for (const Json& one : shown["workloads"]) {
      CHECK(one["damaged"] == (one["id"] == 2));
      CHECK(one["time_us"].is_null() == (one["id"] == 2));
    }
    CHECK(contains(tool.run({"cache", "ls", "--json", "--cache", path}).err, forged.what));
    for (const Ended& listed : {tool.run({"cache", "ls", "--cache", path}), tool.run({"report", "--cache", path})}) {
      CHECK(listed.code == 0);
      CHECK(contains(listed.err, forged.what) != is_beyond_lists(forged.what));
      CHECK(contains(listed.out, "damaged") != is_beyond_lists(forged.what));
    }
  }
}

TEST_CASE("check, report, export and merge say the same of a forged range table") {
  const std::set<std::string> kinds = {"claims a bound of -1", "whose best_us is -1", "two cells at",
                                       "its cubin takes other parameters"};
  Tool tool;
  const std::string path = tool.path("c.db").string(), sources = moetune::kernel_source_digest("decode_attention");
  for (const ForgedTable& forged : forged_tables()) {
    if (!kinds.contains(forged.what)) continue;
    CAPTURE(forged.what);
    moetune::RangeTable table = decode_table();
    moetune::RangeKey key = decode_range_key(sources);
    moetune::RangeRecord record = decode_record("");
    forged.forge(table, key, record);
    record.table = table.text();
    new_cache(path, sources).ranges.put(key, record);
    check_commands(tool, path, "range table 1", forged.what, "damaged_ranges");
    const Ended reported = tool.run({"report", "--json", "--cache", path});
    CHECK(reported.code == 0);
    CHECK(document(reported)["ranges"].empty());
    REQUIRE(document(reported)["damaged_tables"].size() == 1);
    CHECK(contains(document(reported)["damaged_tables"][0], forged.what));
  }
}
