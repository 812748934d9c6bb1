// From a merge that is too close to call, by the next night, to a winner that has won its duel.
#include "cache/cache.h"
#include "cache/merge.h"
#include "tests/cli/scripted_gpu.h"

using namespace moetune::testing;
using moetune::Cache;

namespace {

std::vector<std::string> night(const Tool& tool, const std::string& cache,
                               std::vector<std::string> more = {}) {
  std::vector<std::string> command = {
      "retune", "--workloads", tool.path("w.json").string(), "--budget", "4", "--threads", "1",
      "--json", "--cache",     tool.path(cache).string()};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

// A night of a host where those configurations alone are legal.
void tune_alone(const ScriptedGpu& gpu, Tool& tool, const std::string& cache, const std::string& legal) {
  const std::filesystem::path file = gpu.data() / "spaces/decode_kernel.json";
  const std::string before = read_text(file);
  Tool::constrain(gpu.data(), "decode_kernel", legal);
  const Ended tuned = tool.run(night(tool, cache));
  INFO(tuned.err);
  REQUIRE(tuned.code == 0);
  std::ofstream(file) << before;
}

}  // namespace

TEST_CASE("what a merge left to a duel is a cause, is dueled once, and then waits no more") {
  ScriptedGpu gpu;
  Tool& tool = gpu.tool;
  tool.write("w.json", R"({"moetune_workloads": 1, "workloads": [
      {"kernel": "decode_kernel", "shapes": ["elements=1024"]}]})");
  // Two hosts come to different winners, which take as long as each other.
  tune_alone(gpu, tool, "a.db", "l2 == 'normal'");
  tune_alone(gpu, tool, "b.db", "l2 == 'evict_first'");
  const Ended merged = tool.run({"cache", "merge", tool.path("c.db").string(), tool.path("a.db").string(),
                                 tool.path("b.db").string(), "--json"});
  INFO(merged.err);
  REQUIRE(document(merged)["duels"].size() == 1);

  const Json planned = document(tool.run(night(tool, "c.db", {"--dry-run"})));
  REQUIRE(planned["plan"]["stale"].size() == 1);
  CHECK(planned["plan"]["stale"][0]["causes"] == Json({"rival"}));
  CHECK(planned["plan"]["stale"][0]["why"] == "a merge left it to a duel");
  CHECK(Cache::open(tool.path("c.db"), Cache::Mode::read_only).duels().size() == 1);

  const Ended done = tool.run(night(tool, "c.db"));
  INFO(done.err);
  CHECK(done.code == 0);
  CHECK(document(done)["reworked"][0]["verdict"] == "kept");  // both take as long
  CHECK(document(done)["reworked"][0]["ratio"].size() == 3);
  CHECK(document(done)["reworked"][0]["trials"] == 0);
  CHECK(Cache::open(tool.path("c.db"), Cache::Mode::read_only).duels().empty());
  CHECK(document(tool.run(night(tool, "c.db", {"--dry-run"})))["plan"]["stale"].empty());
  CHECK(tool.run({"cache", "check", "--cache", tool.path("c.db").string()}).code == 0);
}
