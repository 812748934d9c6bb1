// Which workloads `cache ls` and `report` show, in what order, and how a terminal shows many.
#include "cache/cache.h"
#include "jobs/session/kernel_files.h"
#include "tests/cli/tool.h"

using namespace moetune::testing;

namespace {

// Workloads of two kernels on two GPUs, one of them stale.
void fill(const std::string& path) {
  auto cache = moetune::Cache::open(path, moetune::Cache::Mode::create);
  const auto add = [&](const std::string& kernel, const std::string& problem, const std::string& gpu,
                       const std::string& sources, double time_us, const std::string& stored_at) {
    const std::int64_t id = cache.workloads.id({.kernel = kernel,
                                                .problem = problem,
                                                .hardware = {.name = gpu, .compute_capability = 90, .sm_count = 132},
                                                .source_digest = sources,
                                                .toolchain = "nvrtc 13.0.88"});
    moetune::WinnerRecord winner;
    winner.config = "loader=bulk,vector_bytes=16,tile_kib=32,stages=4,warps=8,producers=1,blocks_per_sm=1,l2=normal";
    winner.plan = "{}";
    winner.cubin = {1, 2, 3};
    winner.time_us = winner.interval_low_us = winner.interval_high_us = time_us;
    winner.default_time_us = 2 * time_us;
    winner.provenance = "{}";
    winner.stored_at = stored_at;
    cache.winners.put(id, winner);
  };
  const std::string today = moetune::kernel_source_digest("decode_kernel");
  const std::string rest = ",dtype=f32,write=all,passes=1";
  add("decode_kernel", "elements=1024" + rest, "NVIDIA H200", today, 10, "2026-11-20T00:00:00Z");
  add("decode_kernel", "elements=2048" + rest, "NVIDIA H200", today, 30, "2026-11-22T00:00:00Z");
  add("decode_kernel", "elements=4096" + rest, "NVIDIA H100", "other sources", 20, "2026-11-21T00:00:00Z");
  add("router", "tokens=1000", "NVIDIA H100", "theirs", 40, "2026-11-19T00:00:00Z");
}

std::string keys_of(const Json& listed) {
  std::string keys;
  for (const Json& one : listed["workloads"]) keys += std::to_string(one["id"].get<int>());
  return keys;
}

}  // namespace

TEST_CASE("cache ls and report show what is asked for, in the order that is asked for") {
  Tool tool;
  const std::string path = tool.path("c.db").string();
  fill(path);
  const auto keys = [&](std::vector<std::string> more) {
    std::string found;
    for (const std::vector<std::string>& verb : {std::vector<std::string>{"cache", "ls"}, {"report"}}) {
      std::vector<std::string> command = verb;
      command.insert(command.end(), more.begin(), more.end());
      command.insert(command.end(), {"--cache", path, "--json"});
      const Ended ended = tool.run(command);
      CAPTURE(ended.err);
      CHECK(ended.code == 0);
      found += (found.empty() ? "" : " ") + keys_of(document(ended));
    }
    return found;
  };
  CHECK(keys({}) == "1234 1234");
  CHECK(keys({"--kernel", "decode_kernel"}) == "123 123");
  CHECK(keys({"--hardware", "h100"}) == "34 34");
  CHECK(keys({"--kernel", "decode_kernel", "--hardware", "H100"}) == "3 3");
  CHECK(keys({"--stale"}) == "34 34");
  CHECK(keys({"--sort", "time"}) == "4231 4231");
  CHECK(keys({"--sort", "age", "--limit", "2"}) == "23 23");
  CHECK(keys({"--limit", "1", "--limit", "3"}) == "123 123");
  CHECK(keys({"--hardware", "A100"}).empty());
  CHECK(keys_of(document(tool.run({"report", "router", "--cache", path, "--json"}))) == "4");

  for (const std::vector<std::string>& verb : {std::vector<std::string>{"cache", "ls"}, {"report"}}) {
    const auto refused = [&](const std::vector<std::string>& more) {
      std::vector<std::string> command = verb;
      command.insert(command.end(), more.begin(), more.end());
      command.insert(command.end(), {"--cache", path});
      const Ended ended = tool.run(command);
      CHECK(ended.code == 2);
      return ended.err;
    };
    CHECK(contains(refused({"--sort", "tme"}), "'time'"));
    CHECK(contains(refused({"--kernel", "decode_kernl"}), "did you mean 'decode_kernel'?"));
  }
  CHECK(contains(tool.run({"cache", "show", "1", "--sort", "time", "--cache", path}).err,
                 "--sort is for ls, not for show"));
  CHECK(contains(tool.run({"report", "router", "--kernel", "decode_kernel", "--cache", path}).err, "two kernels"));
  CHECK(contains(tool.run({"cache", "ls", "--limit", "1", "--cache", path}).out, "1 of 4 workloads"));
}

TEST_CASE("an export selects as a list does, and says what there is if that is nothing") {
  Tool tool;
  const std::string pack = std::string(paths::source("packs/")) + "h100.pack";
  const auto exported = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {"cache", "export", tool.path("a.pack").string(), "--cache", pack, "--json"};
    command.insert(command.end(), more.begin(), more.end());
    return tool.run(command);
  };
  const Json all = document(exported({})), some = document(exported({"--hardware", "h100"}));
  CHECK(some["ranges"].get<int>() > 0);
  CHECK(some["ranges"] == all["ranges"]);
  const Ended absent = exported({"--hardware", "B200"});
  CHECK(absent.code == 2);
  CHECK(contains(absent.err, "has 'B200' in its name; it has results of NVIDIA H100"));
  CHECK(contains(exported({"--kernel", "decode_atention"}).err, "did you mean 'decode_attention'?"));
}

TEST_CASE("names of problems are short in a pipe as on a terminal, and long with --wide") {
  Tool tool;
  const std::string path = tool.path("c.db").string();
  fill(path);
  for (const std::vector<std::string>& verb : {std::vector<std::string>{"cache", "ls"}, {"report"}}) {
    std::vector<std::string> command = verb;
    command.insert(command.end(), {"--hardware", "H200", "--cache", path});
    std::string piped = tool.run(command).out;
    piped.resize(std::min(piped.size(), piped.find("\n  workload ")));  // a report's details are in full
    CHECK(contains(piped, "elements=2048"));
    CHECK_FALSE(contains(piped, "passes=1"));
    command.push_back("--wide");
    CHECK(contains(tool.run(command).out, "elements=2048,dtype=f32,write=all,passes=1"));
  }
}

TEST_CASE("the shipped packs are listed in few lines, and no line is a single dimension") {
  Tool tool(std::map<std::string, std::string>{{"COLUMNS", "80"}});
  for (const char* name : {"h200.pack", "h100.pack"}) {
    const std::string pack = std::string(paths::source("packs/")) + name;
    const Json listed = document(tool.run({"cache", "ls", "--cache", pack, "--json"}));
    const std::size_t rows = listed["workloads"].size() + listed["ranges"].size();
    REQUIRE(rows > 50);
    const std::string text = tool.run({"cache", "ls", "--cache", pack}).out;
    CHECK(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) < 2 * rows);
  }
}
