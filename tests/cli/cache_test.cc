#include "tests/cli/tool.h"

using moetune::testing::document;
using moetune::testing::Ended;
using moetune::testing::Tool;
using Json = nlohmann::json;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

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

TEST_CASE("the default cache follows XDG_CACHE_HOME") {
  Tool tool;
  const std::string recording = tool.write_recording();
  const Json found =
      document(tool.run({"search", "--device", "replay:" + recording, "--budget", "5", "--json"}));
  CHECK(found["cache"] == tool.path("xdg/moetune/moetune.db").string());
  CHECK(std::filesystem::exists(tool.path("xdg/moetune/moetune.db")));
}

TEST_CASE("report shows what a search found, and that it is a recording's") {
  Tool tool;
  const std::string recording = tool.write_recording();
  const Json found =
      document(tool.run({"search", "--device", "replay:" + recording, "--budget", "400", "--json"}));
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
  document(tool.run({"search", "--device", "replay:" + recording, "--budget", "300", "--json"}));
  tool.write_recording(4);
  const Json other =
      document(tool.run({"search", "--device", "replay:" + recording, "--budget", "300", "--json"}));
  CHECK(other["trials"]["resumed"] == 0);
  CHECK(document(tool.run({"cache", "ls", "--json"}))["workloads"].size() == 2);
}

TEST_CASE("a damaged cache is reported with exit code 3, never used") {
  Tool tool;
  const std::string recording = tool.write_recording();
  const std::string cache = tool.path("c.db").string();
  const std::vector<std::string> command = {
      "search", "--device", "replay:" + recording, "--budget", "500", "--cache", cache, "--json"};
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
