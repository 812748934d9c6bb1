#include "cache/cache.h"
#include "tests/cli/tool.h"

using namespace moetune::testing;

TEST_CASE("cache gc says what it removes, and a dry run removes nothing") {
  Tool tool;
  CHECK(tool.run({"search", "--device", "replay:" + tool.write_recording(), "--budget", "20"}).code == 0);
  const std::filesystem::path file = tool.path("xdg/moetune/moetune.db");
  {
    moetune::Cache cache = moetune::Cache::open(file, moetune::Cache::Mode::read_write);
    for (const char* name : {"a", "b"}) cache.builds.put(name, {"ok", "{}", std::string(300'000, name[0]) + name, {}});
  }
  const Ended planned = tool.run({"cache", "gc", "--keep-builds", "0", "--dry-run"});
  CHECK(planned.code == 0);
  CHECK(contains(planned.out, "would remove  2 builds ("));
  CHECK(contains(planned.out, "), 0 trials of 0 workloads, 0 earlier winners\n"));
  CHECK(contains(planned.out, " -> about "));
  CHECK(document(tool.run({"cache", "ls", "--json"}))["builds"] == 2);

  CHECK(document(tool.run({"cache", "gc", "--json"}))["builds"] == 0);  // they are less than 64 MiB
  const Json done = document(tool.run({"cache", "gc", "--keep-builds", "0", "--json"}));
  CHECK(done["builds"] == 2);
  CHECK(done["dry_run"] == false);
  CHECK(done["file_bytes_after"].get<int>() < done["file_bytes_before"].get<int>() - 500'000);
  CHECK(document(tool.run({"cache", "ls", "--json"}))["trials"] == 20);
  CHECK(tool.run({"cache", "check"}).code == 0);
  const Ended small = tool.run({"cache", "gc", "--max-size", "0.001"});
  CHECK(small.code == 0);
  CHECK(contains(small.err, "--max-size: winners and the trials that searches need take more than that"));
}

TEST_CASE("cache gc refuses what it cannot do") {
  Tool tool;
  CHECK(contains(tool.run({"cache", "gc"}).out, "There is no cache yet"));
  for (const auto& [option, words] : {std::pair{"--max-size", "number of MiB"}, {"--keep-builds", "--keep-builds"}}) {
    const Ended ended = tool.run({"cache", "gc", option, "-3"});
    CHECK(ended.code == 2);
    CHECK(contains(ended.err, words));
  }
  const Ended elsewhere = tool.run({"cache", "ls", "--dry-run"});
  CHECK(elsewhere.code == 2);
  CHECK(contains(elsewhere.err, "--dry-run is for gc, not for ls"));
}
