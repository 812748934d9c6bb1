// Nights on a scripted GPU with the real compiler: what is missing is tuned, what changed is examined, nothing twice;
// killed, overlapping and failing nights.
#include <csignal>
#include <regex>

#include "cache/cache.h"
#include "tests/cli/scripted_gpu.h"
#include "tests/paths.h"

using namespace moetune::testing;

namespace {

std::vector<std::string> one_night(const Tool& tool, std::vector<std::string> more = {}) {
  std::vector<std::string> command = {
      "retune", "--workloads", tool.path("w.json").string(), "--budget", "2", "--threads", "1", "--json"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

void write_list(const Tool& tool, const std::string& shapes) {
  tool.write("w.json",
             R"({"moetune_workloads": 1, "workloads": [{"kernel": "decode_kernel", "shapes": [)" + shapes + "]}]}");
}

std::size_t count_events(const Tool& tool, const std::string& event) {
  const std::string log = read_text(tool.path("night.log"));
  std::size_t count = 0;
  for (std::size_t at = 0; (at = log.find("\"event\":\"" + event + "\"", at)) != std::string::npos; ++at) ++count;
  return count;
}

// The template's text has changed, and what it compiles to has not.
void touch_template(const ScriptedGpu& gpu) {
  std::ofstream(gpu.data() / "templates/decode_kernel/decode_kernel.cu", std::ios::app) << "\n// touched\n";
}

// Winners as if they had been found then, and been examined by a night.
void store_last_year(const std::filesystem::path& cache) {
  moetune::Cache file = moetune::Cache::open(cache, moetune::Cache::Mode::read_write);
  for (const moetune::Workload& workload : file.workloads.all()) {
    std::optional<moetune::WinnerRecord> winner = file.winners.find(workload.id);
    if (!winner) continue;
    winner->stored_at = "2025-01-01T00:00:00Z";
    file.winners.put(workload.id, *winner);
  }
  for (const auto& one : std::filesystem::directory_iterator(cache.parent_path())) {
    if (one.path().extension() != ".json") continue;
    const std::string ledger =
        std::regex_replace(read_text(one.path()), std::regex(R"("at": ?\d+)"), "\"at\":1735689600");
    std::ofstream(one.path()) << ledger;
  }
}

std::vector<std::string> causes(const Json& document) {
  std::vector<std::string> all;
  for (const Json& item : document["plan"]["stale"])
    for (const Json& cause : item["causes"]) all.push_back(cause);
  return all;
}

}  // namespace

TEST_CASE("a first night tunes, a second has nothing to do, and a changed template is examined once") {
  ScriptedGpu gpu;
  Tool& tool = gpu.tool;
  write_list(tool, "\"elements=1024\"");
  const Json planned = document(tool.run(one_night(tool, {"--dry-run"})));
  CHECK(causes(planned) == std::vector<std::string>{"missing"});
  CHECK(planned["reworked"].empty());
  CHECK_FALSE(std::filesystem::exists(tool.path("xdg")));

  const Ended first = tool.run(one_night(tool, {"--exit-code", "--log", tool.path("night.log").string()}));
  CHECK(first.code == 4);
  CHECK(document(first)["reworked"][0]["verdict"] == "tuned");
  for (const char* event : {"planned", "began", "ended", "night_ended"}) CHECK(count_events(tool, event) == 1);

  const Ended second = tool.run(one_night(tool, {"--exit-code"}));
  CHECK(second.code == 0);
  CHECK(document(second)["plan"]["stale"].empty());
  CHECK(document(second)["plan"]["fresh"] == 1);

  touch_template(gpu);
  CHECK(causes(document(tool.run(one_night(tool, {"--dry-run"})))) == std::vector<std::string>{"sources"});
  const Ended third = tool.run(one_night(tool, {"--exit-code"}));
  CHECK(third.code == 0);
  CHECK(document(third)["reworked"][0]["verdict"] == "kept");
  CHECK(document(tool.run(one_night(tool)))["plan"]["stale"].empty());
  CHECK(tool.run({"cache", "check"}).code == 0);
}

TEST_CASE("an edited space is a cause, and so is age") {
  ScriptedGpu gpu;
  Tool& tool = gpu.tool;
  write_list(tool, "\"elements=1024\"");
  REQUIRE(tool.run(one_night(tool)).code == 0);
  Tool::constrain(gpu.data(), "decode_kernel", "stages == 2");
  CHECK(causes(document(tool.run(one_night(tool, {"--dry-run"})))) == std::vector<std::string>{"space"});
  store_last_year(tool.path("xdg/moetune/moetune.db"));
  CHECK(causes(document(tool.run(one_night(tool, {"--dry-run", "--max-age", "30d"})))) ==
        std::vector<std::string>{"space", "age"});
}

TEST_CASE("a workload that the GPU cannot hold fails in part; if all fail the night failed") {
  ScriptedGpu gpu;
  Tool& tool = gpu.tool;
  write_list(tool, R"("elements=1024", "elements=1073741824")");
  const Ended part = tool.run(one_night(tool));
  CHECK(part.code == 1);
  CHECK(document(part)["reworked"].size() == 2);
  write_list(tool, R"("elements=1073741824")");
  CHECK(tool.run(one_night(tool)).code == 3);
}

TEST_CASE("what cannot be meant by an option of a night is refused in one line") {
  ScriptedGpu gpu;
  Tool& tool = gpu.tool;
  write_list(tool, R"("elements=1024")");
  const auto refused = [&](const char* option, const char* value) {
    const Ended ended = tool.run(one_night(tool, {option, value}));
    CHECK(ended.code == 2);
    CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
    return ended.err;
  };
  CHECK(contains(refused("--shard", "3/2"), "--shard: must be K/N with K from 1 to N, such as 1/4 (got '3/2')"));
  CHECK(contains(refused("--until", "25:00"), "--until: must be a time of day, such as 06:00 (got '25:00')"));
  CHECK(contains(refused("--time", "1x"), "--time takes a span of time, such as 90, 30s"));
  CHECK(contains(refused("--device", "replay:no-such"), "--device: there is no file no-such, and no recording"));
  CHECK(tool.run(one_night(tool, {"--time", "1h", "--until", "06:00"})).code == 2);
  CHECK(tool.run(one_night(tool, {"--no-cache"})).code == 2);
}

TEST_CASE("a winner knows its GPU's UUID and settings, and so does the one that replaces it") {
  ScriptedGpu gpu;
  Tool& tool = gpu.tool;
  tool.set_environment("MOETUNE_LIBNVML", paths::fake_libnvml());
  tool.set_environment("MOETUNE_FAKE_NVML", "power0=650000,mig0=1,ecc0=0");
  write_list(tool, "\"elements=1024\"");
  REQUIRE(tool.run(one_night(tool)).code == 0);
  const Json known = document(tool.run({"cache", "show", "1", "--json"}))["provenance"];
  CHECK(known["uuid"] == "GPU-00ababab-abab-abab-abab-abababababab");
  CHECK(known["power_limit_w"] == 650);
  CHECK(known["mig"] == true);
  CHECK(known["ecc"] == false);

  ScriptedGpu other;
  other.tool.set_environment("MOETUNE_LIBNVML", paths::fake_libnvml());
  other.tool.set_environment("MOETUNE_FAKE_NVML", "ecc0=9");
  write_list(other.tool, "\"elements=1024\"");
  REQUIRE(other.tool.run(one_night(other.tool)).code == 0);
  const Json less = document(other.tool.run({"cache", "show", "1", "--json"}))["provenance"];
  CHECK(less["power_limit_w"] == 500);
  CHECK(less["mig"] == false);
  CHECK_FALSE(less.contains("ecc"));  // a card that has none
}

TEST_CASE("a search that the night's end cuts is kept, and stale until a later night has ended it") {
  Tool tool;
  tool.write("w.json", R"({"moetune_workloads": 1, "workloads": [{"kernel": "decode_attention", "shapes": [
      "q_heads=32,batch=8,context=4096"]}]})");
  const auto command = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"retune",   "--workloads",    tool.path("w.json").string(),
                                    "--device", "replay:shipped", "--budget",
                                    "24",       "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  // What all of the search compiles is stored, so that the time goes to trials on a slow machine too.
  REQUIRE(document(tool.run(command({})))["reworked"][0]["trials"] == 24);
  REQUIRE(tool.run({"cache", "rm", "1"}).code == 0);
  tool.set_environment("MOETUNE_REPLAY_PACE_MS", "500");
  const Ended cut = tool.run(command({"--time", "4s"}));
  INFO(cut.err);
  const Json first = document(cut);
  CHECK(first["reworked"][0]["verdict"] == "tuned");
  CHECK(first["reworked"][0]["unfinished"] == true);
  CHECK(first["reworked"][0]["trials"] < 24);
  const Json planned = document(tool.run(command({"--dry-run"})));
  REQUIRE(planned["plan"]["stale"].size() == 1);
  CHECK(contains(planned["plan"]["stale"][0]["why"], "was stopped in its search"));
  tool.set_environment("MOETUNE_REPLAY_PACE_MS", "1");
  const Json second = document(tool.run(command({})));
  CHECK(second["reworked"][0]["unfinished"] == false);
  CHECK(second["reworked"][0]["trials"] == 24);
  CHECK(document(tool.run(command({"--dry-run"})))["plan"]["stale"].empty());
}

TEST_CASE("a night of the shipped recordings is of the recorded shapes; others are left out and said") {
  Tool tool;
  tool.write("w.json", R"({"moetune_workloads": 1, "workloads": [{"kernel": "decode_attention", "shapes": [
      "q_heads=32,batch=8,context=4096", "batch=7,context=100"]}]})");
  const Ended planned = tool.run(one_night(tool, {"--dry-run", "--no-compile", "--device", "replay:shipped"}));
  CHECK(planned.code == 1);
  CHECK(document(planned)["plan"]["stale"].size() == 1);
  REQUIRE(document(planned)["plan"]["left_out"].size() == 1);
  CHECK(contains(document(planned)["plan"]["left_out"][0]["why"], "no shipped recording"));
  CHECK(contains(planned.err, "is left out: no shipped recording is of decode_attention"));
}

TEST_CASE("without a GPU nothing that runs unattended takes a recording for one") {
  Tool tool;
  tool.write("w.json", R"({"moetune_workloads": 1, "workloads": [{"kernel": "decode_attention", "shapes": [
      "q_heads=32,batch=8,context=4096"]}]})");
  const std::string list = tool.path("w.json").string();
  tool.set_environment("MOETUNE_SHARD", "1/1");
  tool.set_environment("MOETUNE", tool.binary());
  tool.set_environment("MOETUNE_WORK", tool.path("work").string());
  const std::string tune_shard = paths::source("packaging/fleet/tune_shard");
  const std::vector<std::vector<std::string>> commands = {
      {tool.binary(), "retune", "--workloads", list},
      {tool.binary(), "retune", "--workloads", list, "--dry-run"},
      {tool.binary(), "retune", "--workloads", list, "--device", "all"},
      {tool.binary(), "tune", "--workloads", list},
      {tool.binary(), "serve", "--listen", "127.0.0.1:0"},
      {tool.binary(), "serve", "--listen", "127.0.0.1:0", "--device", "auto"},
      {tune_shard, list, tool.path("fleet").string()}};
  for (const std::vector<std::string>& command : commands) {
    const Ended ended = tool.start_program(command)->wait();
    CAPTURE(command[1]);
    CAPTURE(ended.err);
    CHECK(ended.code == 3);
    CHECK(contains(ended.err, "needs a GPU, and there is none here: no CUDA driver"));
    CHECK(contains(ended.err, "only if they are named: --device replay:FILE, or replay:shipped"));
    CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') <= 2);  // tune_shard exports what there is
    CHECK_FALSE(contains(ended.out, "H200"));
  }
  // By name they do; a person's search does by itself, and says so.
  const Ended named =
      tool.run({"retune", "--workloads", list, "--device", "replay:shipped", "--budget", "4", "--no-compile"});
  CHECK(named.code == 0);
  const Ended search = tool.run({"search", "decode_attention", "--budget", "4", "--no-compile", "--no-cache"});
  CHECK(search.code == 0);
  CHECK(contains(search.err, "No GPU here"));
}
