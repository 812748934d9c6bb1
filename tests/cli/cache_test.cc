#include "cache/cache.h"

#include "cache/ranges.h"
#include "ranges/range_table.h"
#include "tests/cli/tool.h"
#include "tuner/trial_record.h"

using namespace moetune::testing;

TEST_CASE("before anything is tuned, report and cache say how to start") {
  Tool tool;
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"report"}, {"cache", "ls"}, {"cache", "show", "1"}, {"cache", "check"}}) {
    const Ended ended = tool.run(command);
    CAPTURE(command[0]);
    CHECK(ended.code == 0);
    CHECK(contains(ended.out, "moetune search decode_attention --budget 200"));
  }
  CHECK(document(tool.run({"report", "--json"}))["workloads"].empty());
  CHECK(document(tool.run({"cache", "ls", "--json"}))["exists"] == false);
  CHECK_FALSE(std::filesystem::exists(tool.path("xdg/moetune")));
}

TEST_CASE("report shows what a search found, and that it is a recording's") {
  Tool tool;
  const std::string recording = tool.write_recording();
  const Json found = document(tool.run({"search", "--device", "replay:" + recording, "--budget", "400", "--json"}));
  const Ended text = tool.run({"report"});
  CHECK(text.code == 0);
  CHECK(contains(text.out, "saxpy"));
  CHECK(contains(text.out, "Test GPU (recorded)"));
  CHECK(contains(text.out, "x=7,y=42"));

  const Json report = document(tool.run({"report", "--json"}));
  REQUIRE(report["workloads"].size() == 1);
  const Json& workload = report["workloads"][0];
  CHECK(workload["kernel"] == "saxpy");
  CHECK(workload["config"] == found["best"]["config"]);
  CHECK(workload["time_us"].get<double>() == doctest::Approx(1000));
  CHECK(workload["hardware"]["origin"].get<std::string>().starts_with("replay:"));
  CHECK(workload["trials"]["total"] == 400);
  CHECK(workload["trials"]["ok"] == found["trials"]["ok"]);
  CHECK(document(tool.run({"report", "saxpy", "--json"}))["workloads"].size() == 1);

  const Ended unknown = tool.run({"report", "saxpi"});
  CHECK(unknown.code == 2);
  CHECK(contains(unknown.err, "did you mean 'saxpy'?"));
  CHECK(report["cache"] == document(tool.run({"cache", "ls", "--json"}))["cache"]);
}

TEST_CASE("a cache file that was named and does not exist is bad input, and is not made") {
  Tool tool;
  const std::string path = tool.path("typo.db").string();
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"report"}, {"cache", "ls"}, {"cache", "show", "1"}, {"cache", "check"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--cache", path});
    CAPTURE(command[0]);
    const Ended ended = tool.run(arguments);
    CHECK(ended.code == 2);
    CHECK(contains(ended.err, "there is no cache at " + path));
  }
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(tool.run({"cache", "show"}).code == 2);
}

TEST_CASE("cache show prints one workload in full and refuses keys that are none") {
  Tool tool;
  const std::string recording = tool.write_recording();
  document(tool.run({"search", "--device", "replay:" + recording, "--budget", "30", "--json"}));
  const Json listed = document(tool.run({"cache", "ls", "--json"}));
  const std::string key = std::to_string(listed["workloads"][0]["id"].get<int>());
  const Json shown = document(tool.run({"cache", "show", key, "--json"}));
  CHECK(shown["kernel"] == "saxpy");
  CHECK(shown["trials"]["total"] == 30);
  CHECK(contains(tool.run({"cache", "show", key}).out, "Test GPU"));
  for (const std::string bad : {"999", "x", "1x", "-1"}) {
    CAPTURE(bad);
    CHECK(tool.run({"cache", "show", bad}).code == 2);
  }
  CHECK(tool.run({"cache", "show"}).code == 2);
}

TEST_CASE("recordings with different contents never share results") {
  Tool tool;
  const std::string recording = tool.write_recording(3);
  document(tool.run({"search", "--device", "replay:" + recording, "--strategy", "random", "--json"}));
  tool.write_recording(4);
  const Json other =
      document(tool.run({"search", "--device", "replay:" + recording, "--strategy", "random", "--json"}));
  CHECK(other["trials"]["resumed"] == 0);
  CHECK(document(tool.run({"cache", "ls", "--json"}))["workloads"].size() == 2);
}

TEST_CASE("a damaged cache is reported with exit code 3, never used") {
  Tool tool;
  const std::string recording = tool.write_recording();
  const std::string cache = tool.path("c.db").string();
  const std::vector<std::string> command = {
      "search", "--device", "replay:" + recording, "--strategy", "random", "--budget", "500", "--cache",
      cache,    "--json"};
  document(tool.run(command));
  CHECK(tool.run({"cache", "check", "--cache", cache}).code == 0);
  {
    // Everything behind the first page, the header and the schema left whole.
    std::fstream file(cache, std::ios::in | std::ios::out | std::ios::binary);
    const auto size = std::filesystem::file_size(cache);
    file.seekp(4096);
    file << std::string(size - 4096, '\x5a');
  }
  const Ended checked = tool.run({"cache", "check", "--cache", cache, "--json"});
  CHECK(checked.code == 3);
  document(checked);
  const Ended searched = tool.run(command);
  CHECK(searched.code == 3);
  CHECK(contains(document(searched)["error"]["message"], "c.db"));
}

namespace {

moetune::WorkloadKey workload_key(const std::string& problem, const std::string& sources) {
  return {.kernel = "decode_kernel",
          .problem = problem,
          .hardware = {.name = "Test GPU", .compute_capability = 90},
          .source_digest = sources,
          .toolchain = "nvrtc 13.0.88"};
}

void store_winner(moetune::Cache& cache, const moetune::WorkloadKey& key, const std::string& config) {
  moetune::WinnerRecord winner;
  winner.config = config;
  winner.plan = "{}";
  winner.cubin = {1, 2, 3};
  winner.time_us = winner.interval_low_us = winner.interval_high_us = 12;
  winner.provenance = "{}";
  cache.winners.put(cache.workloads.id(key), winner);
}

}  // namespace

TEST_CASE("a range table has a key, a history and a way back") {
  Tool tool;
  const std::string path = tool.path("c.db").string();
  const moetune::RangeKey key{"saxpy", "dtype=f32", {.name = "Test GPU", .compute_capability = 90}, "abc", "nvrtc 13"};
  const auto table = [](const std::string& problem) {
    moetune::RangeTable stored{.ranges = "n=1..4", .bound = 0.02};
    stored.cells.push_back({problem, "x=1", 10, 12, 10});
    return stored.text();
  };
  for (const char* problem : {"n=1", "n=2"})
    moetune::Cache::open(path, moetune::Cache::Mode::create)
        .ranges.put(key, {.table = table(problem), .progress = "", .provenance = R"({"driver":"580.1"})"});
  const auto cache = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "cache");
    words.insert(words.end(), {"--cache", path});
    return tool.run(words);
  };
  CHECK(contains(cache({"ls"}).out, "table:1"));
  CHECK(document(cache({"ls", "--json"}))["ranges"][0]["family"] == "dtype=f32");
  const Json history = document(cache({"history", "table:1", "--json"}));
  REQUIRE(history["generations"].size() == 1);
  CHECK(history["generations"][0]["table"]["cells"].size() == 1);
  CHECK(history["generations"][0]["provenance"]["driver"] == "580.1");
  CHECK(contains(cache({"history", "table:1"}).out, "1 cells, worst 0.0%"));
  const Ended back = cache({"rollback", "table:1"});
  CHECK(back.code == 0);
  CHECK(contains(back.out, "The table is generation 1 again"));
  CHECK(moetune::Cache::open(path, moetune::Cache::Mode::read_only).ranges.all().at(0).table == table("n=1"));
  CHECK(cache({"rollback", "table:1", "9"}).code == 2);
  CHECK(contains(cache({"history", "table:7"}).err, "no range table has the key"));
  CHECK(cache({"rm", "table:7"}).code == 2);
  const Json removed = document(cache({"rm", "table:1", "--json"}));
  CHECK(removed["removed"]["key"] == "table:1");
  CHECK(!contains(cache({"ls"}).out, "table:1"));
  CHECK(cache({"check"}).code == 0);
}

TEST_CASE("the trials of a recording in progress are marked, and count as nothing tuned") {
  Tool tool;
  const std::string path = tool.path("c.db").string();
  {
    auto cache = moetune::Cache::open(path, moetune::Cache::Mode::create);
    store_winner(cache, workload_key("n=1", std::string(moetune::kRecordingMark) + "abc"), "x=1");
  }
  CHECK(document(tool.run({"report", "--cache", path, "--json"}))["workloads"].empty());
  const Ended listed = tool.run({"cache", "ls", "--cache", path, "--json"});
  REQUIRE(document(listed)["workloads"].size() == 1);
  CHECK(document(listed)["workloads"][0]["recording"] == true);
  CHECK(contains(tool.run({"cache", "ls", "--cache", path}).out, "a recording's trials"));
}

TEST_CASE("a stored trial keeps the samples that a resumed recording writes") {
  using namespace moetune;
  TrialResult result{.outcome = Outcome::ok};
  result.measurement.median_us = 3;
  result.measurement.samples_us = {1, 2, 3, 4, 5, 6, 7};
  const TrialRecord record = to_record(Config{}, result, nullptr, {});
  const auto read = from_record(record);
  REQUIRE(read.has_value());
  CHECK(read->measurement.samples_us == std::vector<double>{1, 2, 3, 4, 5});
  TrialRecord older = record;
  older.facts = R"({"validate_s": 1})";
  REQUIRE(from_record(older).has_value());
  CHECK(from_record(older)->measurement.samples_us.empty());
}
