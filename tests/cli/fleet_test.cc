// The scripts of packaging/: a fleet's shards as processes of this machine on scripted GPUs, and one merge after them.
#include <filesystem>

#include "cache/cache.h"
#include "tests/cli/scripted_gpu.h"
#include "tests/paths.h"

using namespace moetune::testing;

namespace {

const std::filesystem::path kPackaging = paths::source("packaging");

class Fleet {
 public:
  Fleet() {
    tool().set_environment("MOETUNE", tool().binary());
    tool().set_environment("MOETUNE_LIB", (kPackaging / "fleet").string());
    tool().set_environment("MOETUNE_WORK", tool().path("work").string());
    tool().set_environment("MOETUNE_FLEET", folder());
    tool().set_environment("PATH", "/usr/bin:/bin");
    std::filesystem::create_directories(folder());
    tool().write("fleet/workloads.json",
                 R"({"moetune_workloads": 1, "workloads": [{"kernel": "decode_kernel", "shapes": [
                     "elements=1024", "elements=2048", "elements=4096", "elements=8192", "elements=16384"]}]})");
  }

  Tool& tool() { return gpu_.tool; }
  std::string folder() { return tool().path("fleet").string(); }
  std::string list() { return folder() + "/workloads.json"; }
  std::unique_ptr<Process> start_shard(std::vector<std::string> more = {}) {
    std::vector<std::string> command = {
        (kPackaging / "fleet/tune_shard").string(), list(), folder(), "--budget", "2", "--threads", "1", "--json"};
    command.insert(command.end(), more.begin(), more.end());
    return tool().start_program(command);
  }
  Ended merge() { return tool().start_program({(kPackaging / "fleet/merge_shards").string(), folder()})->wait(); }
  std::size_t winners(const std::string& file) {
    const auto listed = document(tool().run({"cache", "ls", "--cache", file, "--json"}));
    return listed["workloads"].size();
  }

 private:
  ScriptedGpu gpu_;
};

}  // namespace

TEST_CASE("three shards at once tune all of a list once, and one merge brings them together") {
  Fleet fleet;
  std::vector<std::unique_ptr<Process>> running;
  for (const char* shard : {"1/3", "2/3", "3/3"}) {
    fleet.tool().set_environment("MOETUNE_SHARD", shard);
    // A host each: the scripted GPUs of all have one name.
    fleet.tool().set_environment("XDG_CACHE_HOME", fleet.tool().path("host" + std::string(shard, 1)).string());
    running.push_back(fleet.start_shard());
  }
  std::size_t tuned = 0;
  for (const auto& process : running) {
    const Ended ended = process->wait();
    INFO(ended.err);
    REQUIRE(ended.code == 0);
    const std::size_t mine = document(ended)["reworked"].size();
    CHECK(mine >= 1);
    CHECK(mine <= 2);
    tuned += mine;
  }
  CHECK(tuned == 5);
  const Ended merged = fleet.merge();
  INFO(merged.err);
  REQUIRE(merged.code == 0);
  CHECK(fleet.winners(fleet.folder() + "/fleet.db") == 5);
  CHECK(fleet.tool().run({"cache", "check", "--cache", fleet.folder() + "/fleet.db"}).code == 0);
  CHECK(fleet.merge().code == 0);  // once more changes nothing
  CHECK(fleet.winners(fleet.folder() + "/fleet.db") == 5);

  // The next night any node of the fleet knows what the others have found.
  fleet.tool().set_environment("MOETUNE_WORK", fleet.tool().path("another_node").string());
  fleet.tool().set_environment("MOETUNE_SHARD", "1/1");
  const Ended next = fleet.start_shard({"--dry-run"})->wait();
  CHECK(document(next)["plan"]["stale"].empty());
  CHECK(document(next)["plan"]["fresh"] == 5);
}

TEST_CASE("what a shard has settled replaces the fleet's older record, however fast that claims to be") {
  Fleet fleet;
  const std::string database = fleet.folder() + "/fleet.db";
  fleet.tool().set_environment("MOETUNE_SHARD", "1/1");
  REQUIRE(fleet.start_shard()->wait().code == 0);
  REQUIRE(fleet.merge().code == 0);
  const auto time_in = [](const std::string& file) {
    return moetune::Cache::open(file, moetune::Cache::Mode::read_only).winners.find(1)->time_us;
  };
  const double settled_us = time_in(database);
  {
    moetune::Cache cache = moetune::Cache::open(database, moetune::Cache::Mode::read_write);
    moetune::WinnerRecord old = cache.winners.find(1).value();
    old.stored_at = "2026-01-01T00:00:00Z";
    for (double* const time : {&old.time_us, &old.interval_low_us, &old.interval_high_us}) *time *= 0.9;
    cache.winners.put(1, old);
  }
  REQUIRE(time_in(database) < settled_us);
  const Ended merged = fleet.merge();
  INFO(merged.err);
  REQUIRE(merged.code == 0);
  CHECK(time_in(database) == settled_us);
  for (const auto& file : std::filesystem::directory_iterator(fleet.folder()))
    CHECK_FALSE(file.path().filename().string().starts_with("."));
  CHECK((std::filesystem::status(database).permissions() & std::filesystem::perms::group_read) !=
        std::filesystem::perms::none);
}

TEST_CASE("a shard goes on without a damaged fleet.db, which it names, and a merge leaves that as it is") {
  Fleet fleet;
  fleet.tool().set_environment("MOETUNE_SHARD", "1/1");
  fleet.tool().write("fleet/fleet.db", "no database");
  const Ended shard = fleet.start_shard()->wait();
  INFO(shard.err);
  CHECK(shard.code == 0);
  CHECK(contains(shard.err, fleet.folder() + "/fleet.db is not a moetune cache"));
  CHECK(contains(shard.err, "goes on without what the fleet has"));
  CHECK(fleet.winners(fleet.folder() + "/shards/1-of-1.db") == 5);
  const Ended merged = fleet.merge();
  CHECK(merged.code == 1);
  CHECK(contains(merged.err, "move " + fleet.folder() + "/fleet.db away"));
  CHECK(read_text(fleet.folder() + "/fleet.db") == "no database");
}

TEST_CASE("the index of a Kubernetes Job and a Slurm array name the shard; a damaged pack is left out") {
  Fleet fleet;
  fleet.tool().set_environment("JOB_COMPLETION_INDEX", "1");
  fleet.tool().set_environment("MOETUNE_SHARDS", "2");
  REQUIRE(fleet.start_shard()->wait().code == 0);
  CHECK(std::filesystem::exists(fleet.folder() + "/shards/2-of-2.db"));
  fleet.tool().set_environment("SLURM_ARRAY_TASK_ID", "1");
  fleet.tool().set_environment("SLURM_ARRAY_TASK_MIN", "1");
  fleet.tool().set_environment("SLURM_ARRAY_TASK_COUNT", "2");
  const Ended array = fleet.tool().start_program({(kPackaging / "slurm/retune.sbatch").string()})->wait();
  INFO(array.err);
  CHECK(array.code == 0);
  CHECK(std::filesystem::exists(fleet.folder() + "/shards/1-of-2.db"));
  fleet.tool().write("fleet/shards/3-of-2.db", "no database");
  const Ended merged = fleet.tool().start_program({(kPackaging / "slurm/merge.sbatch").string()})->wait();
  CHECK(merged.code == 1);
  CHECK(contains(merged.err, "3-of-2.db is left out"));
  CHECK(fleet.winners(fleet.folder() + "/fleet.db") == 5);
  for (const char* wrong : {"2", "a/b", "1/2/3", "/2"}) {
    fleet.tool().set_environment("MOETUNE_SHARD", wrong);
    CHECK(contains(fleet.start_shard()->wait().err, "must be K/N with K from 1 to N"));
  }
}
