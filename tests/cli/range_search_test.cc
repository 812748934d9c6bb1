// `moetune search --over` as a user runs it, on the recordings that are shipped.
#include "cli/range_search.h"

#include <csignal>

#include "ranges/range_table.h"
#include "tests/cli/tool.h"
#include "tests/jobs/made_up_range.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

std::vector<std::string> over_command(const std::vector<std::string>& more = {}) {
  std::vector<std::string> command = {"search",
                                      "decode_attention",
                                      "--over",
                                      "batch=1..128,context=2k..8k",
                                      "--problem",
                                      "q_heads=32,kv_heads=8,head_dim=128",
                                      "--no-compile",
                                      "--budget",
                                      "40"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

}  // namespace

TEST_CASE("a range of shipped recordings: a table that keeps its bound, and the second time it is all known") {
  Tool tool;
  const Ended first = tool.run(over_command({"--json", "--device", "replay:shipped"}));
  CHECK(first.code == 0);
  const Json found = document(first);
  CHECK(found["planned"].get<std::size_t>() >= 3);
  CHECK(found["cells"].size() == found["planned"].get<std::size_t>());
  CHECK(found["worst_regret"].get<double>() <= 0.02);
  CHECK(found["cubins"].size() <= 4);
  for (const Json& cell : found["cells"]) {
    if (!cell["default_us"].is_null())
      CHECK(cell["time_us"].get<double>() <= cell["default_us"].get<double>() * (1 + moetune::RangeCell::kTie));
  }
  // --json is quiet but for warnings.
  CHECK(first.err == "A recording holds times of overlapping launches: they stand for chained ones.\n");
  CHECK(tool.run({"cache", "check"}).code == 0);
  Json again = document(tool.run(over_command({"--json"})));
  CHECK(again["cells"] == found["cells"]);
  const Ended text = tool.run(over_command());
  CHECK(contains(text.out, "worst cell (bound 2.0%)"));
}

TEST_CASE("a bound that is missed is blamed on few cubins only if there may be no more, and has its digits") {
  const auto text = [](double bound, double regret, bool kept, bool has_all_cubins) {
    return worst_regret_text({{"bound", bound}, {"worst_regret", regret}, {"kept", kept}}, has_all_cubins);
  };
  CHECK(text(0.02, 0.003, true, true) == "0.3% in the worst cell (bound 2.0%)");
  CHECK(text(0.02, 0.031, false, true) == "3.1% in the worst cell (bound 2.0%, which so few cubins do not keep)");
  CHECK(text(0.02, 0.031, false, false) == "3.1% in the worst cell (bound 2.0%, which is not kept)");
  CHECK(text(0.00001, 0.0004, false, false) == "0.040% in the worst cell (bound 0.001%, which is not kept)");
  CHECK(text(0.0025, 0, true, false) == "0.00% in the worst cell (bound 0.25%)");
}

TEST_CASE("a range of one cubin says that so few do not keep its bound") {
  Tool tool;
  write_made_up_range(tool.path("recordings"));
  const Ended ended = tool.run({"search", "router", "--over", "tokens=1..4096", "--device",
                                "replay:" + tool.path("recordings").string(), "--no-compile", "--budget", "40",
                                "--regret", "0.25", "--variants", "1"});
  CHECK(contains(ended.out, "% in the worst cell (bound 0.25%, which so few cubins do not keep)"));
}

TEST_CASE("what is no range, or has no cache, is refused by its option") {
  Tool tool;
  const auto refused = [&](const std::vector<std::string>& command) {
    const Ended ended = tool.run(command);
    CHECK(ended.code == 2);
    return ended.err;
  };
  CHECK(contains(refused({"search", "decode_attention", "--over", "batches=1..4"}), "--over"));
  CHECK(contains(refused({"search", "decode_attention", "--over", "batch=4..1"}), "--over"));
  CHECK(contains(refused(over_command({"--no-cache"})), "moetune: --no-cache: a range keeps"));
  CHECK(contains(refused(over_command({"--regret", "0"})), "--regret"));
  CHECK(contains(refused({"search", "--over", "batch=1..4"}), "KERNEL"));
}
