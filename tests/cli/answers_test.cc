// What is said of one search is the same wherever it is asked for, and says why.
#include "tests/cli/tool.h"

using namespace moetune::testing;

namespace {

// A recording of nobody's kernel with near ties: the fastest is not the first of those within 0.3%.
std::string write_ties(const Tool& tool) {
  Json cache = Json::object();
  std::vector<int> xs;
  for (int x = 0; x < 100; ++x) {
    xs.push_back(x);
    cache[std::to_string(x)] = {{"x", x}, {"time", x == 70 ? 1.0 : x == 20 ? 1.002 : 2.0 + 0.01 * x}};
  }
  tool.write("ties.json", Json{{"device_name", "Test GPU"},
                               {"kernel_name", "saxpy"},
                               {"problem_size", 1000},
                               {"tune_params_keys", {"x"}},
                               {"tune_params", {{"x", xs}}},
                               {"objective", "time"},
                               {"cache", cache}}
                              .dump());
  return "replay:" + tool.path("ties.json").string();
}

}  // namespace

TEST_CASE("search, report, cache ls and cache show give one answer, ties included") {
  Tool tool;
  const Json found = document(tool.run({"search", "--device", write_ties(tool), "--budget", "100", "--json"}));
  CHECK(found["best"]["config"] == "x=70");
  const Json listed = document(tool.run({"cache", "ls", "--json"}))["workloads"][0];
  const std::string key = std::to_string(listed["id"].get<int>());
  const Json said[] = {document(tool.run({"report", "--json"}))["workloads"][0], listed,
                       document(tool.run({"cache", "show", key, "--json"}))};
  for (const Json& one : said) {
    CHECK(one["config"] == found["best"]["config"]);
    CHECK(one["time_us"] == found["best"]["time_us"]);
    CHECK(one["recorded"] == true);
  }
}

TEST_CASE("a search that ends early says why, and what 60 more trials should gain is a number") {
  Tool tool;
  const std::string device = write_ties(tool);
  const Ended all = tool.run({"search", "--device", device, "--budget", "500", "--no-cache"});
  CHECK(contains(all.out, "ended early"));
  CHECK(contains(all.out, "every configuration was tried"));
  CHECK_FALSE(contains(all.out, "should gain -"));
  const Ended whole = tool.run({"search", "--device", device, "--budget", "20", "--no-cache"});
  CHECK_FALSE(contains(whole.out, "ended early"));
  const Ended converged = tool.run({"search", "--device", "replay:" + tool.write_recording(), "--budget", "1900",
                                    "--until-converged", "5", "--no-cache"});
  CHECK(contains(converged.out, "60 more trials should gain less than 5% (--until-converged)"));
  const Ended late = tool.run({"search", "--device", device, "--budget", "90", "--time", "0.000001", "--no-cache"});
  CHECK(contains(late.out + late.err, "--time"));
}

TEST_CASE("the history is for programs") {
  Tool tool;
  const Ended ended = tool.run({"search", "--device", write_ties(tool), "--budget", "5", "--history"});
  CHECK(ended.code == 2);
  CHECK(contains(ended.err, "--history lists the trials in the document of --json"));
}

TEST_CASE("near misses on the command line are answered with what is right") {
  Tool tool;
  const auto error = [&](std::vector<std::string> words) { return tool.run(std::move(words)).err; };
  CHECK(contains(error({"space", "decode_kernel", "--arch", "sm_90"}), "did you mean 'sm_90a'?"));
  CHECK(contains(error({"space", "decode_attention", "--problem", "batch=1 context=64"}), "commas"));
  CHECK(contains(error({"space", "decode_attention", "--problem", "batch=1", "context=64"}), "commas"));
}

TEST_CASE("without a GPU a kernel that nobody recorded leads to what works here") {
  Tool tool;
  CHECK(contains(tool.run({"report", "decode_kernel"}).out, "moetune compile decode_kernel"));
  CHECK(contains(tool.run({"search", "decode_kernel"}).err, "moetune compile decode_kernel"));
  const std::string other = tool.run({"search", "decode_attention", "--problem", "batch=3"}).err;
  CHECK(contains(other, "decode_attention batch=3."));
  CHECK(contains(other, "moetune space"));
}
