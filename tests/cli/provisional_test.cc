// What a search leaves that was stopped, and what a smaller one says of a cache that knows more.
#include <csignal>

#include "cache/cache.h"
#include "tests/cli/tool.h"

using namespace moetune::testing;

namespace {

constexpr const char* kRecording = "replay:decode_attention_h200_b64_c8192";

std::vector<std::string> search_of(const std::string& budget, const std::vector<std::string>& more = {}) {
  std::vector<std::string> command = {"search", "decode_attention", "--device", kRecording, "--budget", budget};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

Json only_workload(Tool& tool) {
  const Json listed = document(tool.run({"cache", "ls", "--json"}))["workloads"];
  REQUIRE(listed.size() == 1);
  return listed[0];
}

}  // namespace

TEST_CASE("Ctrl-C stores the best so far as a provisional winner, and the same command makes it a winner") {
  Tool tool;
  const auto process = tool.start(search_of("5000", {"--verbose"}));
  REQUIRE(process->says_lines(12));
  process->send(SIGINT);
  const Ended stopped = process->wait();
  CHECK(stopped.code == 130);
  CHECK(contains(stopped.err, "The best so far is stored as a provisional winner."));
  const Json kept = only_workload(tool);
  CHECK(kept["winner"] == true);
  CHECK(kept["provisional"] == true);
  CHECK(kept["default_time_us"].get<double>() >= 0.997 * kept["time_us"].get<double>());  // the default wins a tie
  const Ended report = tool.run({"report"});
  CHECK(contains(report.out, "provisional"));
  CHECK(contains(tool.run({"cache", "show", "1"}).out, "provisional"));
  CHECK(contains(tool.run({"cache", "ls"}).out, " (provisional)"));
  const Ended exported = tool.run({"cache", "export", tool.path("a.pack").string(), "--recorded"});
  CHECK(exported.code == 2);
  CHECK(contains(exported.err, "but of interrupted searches"));
  CHECK(tool.run({"cache", "check"}).code == 0);
  // It has a cubin, which an extraction gives out.
  const Ended extracted = tool.run({"cache", "extract", "1", tool.path("out").string()});
  CHECK(extracted.code == 0);
  CHECK(std::filesystem::file_size(tool.path("out/winner.cubin")) > 1000);

  const auto total = kept["trials"]["total"].get<std::size_t>();
  const Json ended = document(tool.run(search_of(std::to_string(total + 2), {"--json"})));
  CHECK(ended["interrupted"] == false);
  CHECK(ended["trials"]["resumed"].get<std::size_t>() > 0);
  CHECK(only_workload(tool)["provisional"] == false);

  // A winner of a whole search is not replaced by the best of an interrupted one.
  const std::string stored_at = only_workload(tool)["stored_at"];
  const auto again = tool.start(search_of("5000", {"--verbose", "--seed", "7"}));
  REQUIRE(again->says_lines(8));
  again->send(SIGINT);
  CHECK_FALSE(contains(again->wait().err, "provisional"));
  CHECK(only_workload(tool)["provisional"] == false);
  CHECK(only_workload(tool)["stored_at"] == stored_at);
}

TEST_CASE("a smaller budget, or another seed, reports the best that the cache holds") {
  Tool tool;
  const std::string recording = tool.write_recording();
  const auto best = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {"search", "--device", "replay:" + recording, "--strategy", "random", "--json"};
    command.insert(command.end(), more.begin(), more.end());
    const Json found = document(tool.run(command));
    return std::pair(found["best"]["time_us"].get<double>(), found["trials"]["total"].get<int>());
  };
  const auto alone = best({"--budget", "10", "--no-cache"});
  const auto large = best({"--budget", "600"});
  REQUIRE(large.first < alone.first);
  const auto small = best({"--budget", "10"});
  CHECK(small.first == large.first);
  CHECK(small.second == 10);
  CHECK(best({"--budget", "5", "--seed", "9"}).first <= large.first);
  CHECK(document(tool.run({"report", "--json"}))["workloads"][0]["time_us"].get<double>() == small.first);
  // Unless all of it is to be forgotten.
  CHECK(best({"--budget", "10", "--fresh"}).first == alone.first);
}
