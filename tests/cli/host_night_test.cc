// A night on several GPUs of one host, a process each: scripted ones, and recordings that stand for them.
#include <csignal>
#include <set>

#include "tests/cli/scripted_gpu.h"
#include "tests/paths.h"

using namespace moetune::testing;

namespace {

std::vector<std::string> night(const Tool& tool, std::vector<std::string> more = {}) {
  std::vector<std::string> command = {
      "retune", "--workloads", tool.path("w.json").string(),   "--budget", "2", "--threads", "1",
      "--json", "--log",       tool.path("night.log").string()};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

void write_list(const Tool& tool, int shapes) {
  std::string text;
  for (int i = 0; i < shapes; ++i) text += (i > 0 ? ", " : "") + ("\"elements=" + std::to_string(1024 << i)) + "\"";
  tool.write("w.json",
             R"({"moetune_workloads": 1, "workloads": [{"kernel": "decode_kernel", "shapes": [)" + text + "]}]}");
}

std::vector<Json> events(const Tool& tool, const std::string& name) {
  std::vector<Json> found;
  std::istringstream log(read_text(tool.path("night.log")));
  for (std::string line; std::getline(log, line);) {
    const Json event = Json::parse(line, nullptr, false);
    if (event.is_object() && event["event"] == name) found.push_back(event);
  }
  return found;
}

bool has_begun(const Tool& tool, const std::string& device) {
  return within_a_while([&] {
    const std::vector<Json> begun = events(tool, "began");
    return std::any_of(begun.begin(), begun.end(), [&](const Json& one) { return one["device"] == device; });
  });
}

// The processes of a night's GPUs; what these have started is not theirs to count.
std::set<pid_t> members_of(pid_t night) {
  std::set<pid_t> members;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stat = read_text(entry.path() / "stat"), line = read_text(entry.path() / "cmdline");
    const std::size_t after_name = stat.rfind(')');
    if (after_name == std::string::npos || line.find(std::string("retune\0", 7)) == std::string::npos) continue;
    std::istringstream rest(stat.substr(after_name + 1));
    char state = 0;
    pid_t parent = 0;
    rest >> state >> parent;
    if (parent == night) members.insert(static_cast<pid_t>(std::stol(name)));
  }
  return members;
}

bool are_gone(const std::set<pid_t>& processes) {
  return within_a_while([&] { return std::ranges::none_of(processes, [](pid_t one) { return ::kill(one, 0) == 0; }); });
}

std::map<std::string, int> tuned_by(const Json& document) {
  std::map<std::string, int> devices;
  for (const Json& one : document["reworked"])
    if (one["verdict"] == "tuned") ++devices[one["device"]];
  return devices;
}

}  // namespace

TEST_CASE("two equal GPUs share the workloads, each in a process of its own") {
  ScriptedGpu gpu(",devices=2,same");
  Tool& tool = gpu.tool;
  write_list(tool, 5);
  const auto process = tool.start(night(tool));
  CHECK(within_a_while([&] { return members_of(process->pid()).size() == 2; }));
  const Ended ended = process->wait();
  INFO(ended.err);
  REQUIRE(ended.code == 0);
  const Json done = document(ended);
  CHECK(done["devices"] == Json({"cuda:0", "cuda:1"}));
  CHECK(done["plan"]["stale"].size() == 5);
  const std::map<std::string, int> by = tuned_by(done);
  CHECK(by.size() == 2);
  CHECK(by.at("cuda:0") + by.at("cuda:1") == 5);
  CHECK(done["reworked"].size() == 5);  // each once
  CHECK(events(tool, "planned").size() == 1);
  CHECK(events(tool, "ended").size() == 5);
  CHECK(events(tool, "night_ended").size() == 1);
  for (const char* lock : {"-retune-GPU-00ab", "-retune-GPU-01ab"}) {
    bool found = false;
    for (const auto& file : std::filesystem::recursive_directory_iterator(tool.path("xdg")))
      found = found || contains(file.path().string(), lock);
    CHECK(found);
  }
  // Whichever GPU did it, nothing is left for either, together or alone.
  CHECK(document(tool.run(night(tool, {"--device", "all"})))["plan"]["stale"].empty());
  CHECK(document(tool.run(night(tool, {"--device", "cuda:1", "--dry-run"})))["plan"]["stale"].empty());
  CHECK(tool.run({"cache", "check"}).code == 0);
}

TEST_CASE("GPUs of two kinds each tune all") {
  ScriptedGpu gpu(",devices=2");
  write_list(gpu.tool, 2);
  const Json done = document(gpu.tool.run(night(gpu.tool, {"--device", "cuda:1,cuda:0"})));
  CHECK(tuned_by(done) == std::map<std::string, int>{{"cuda:0", 2}, {"cuda:1", 2}});
}

TEST_CASE("a GPU whose canary is slower than its siblings' is named and left out") {
  ScriptedGpu gpu(",devices=3,same,slow1=4");
  write_list(gpu.tool, 3);
  const Ended ended = gpu.tool.run(night(gpu.tool));
  CHECK(ended.code == 0);
  const Json done = document(ended);
  REQUIRE(done["left_out_devices"].size() == 1);
  CHECK(done["left_out_devices"][0]["device"] == "cuda:1");
  CHECK(contains(ended.err, "cuda:1 is left out: its canary is 4.0% slower"));
  CHECK(done["reworked"].size() == 3);
  CHECK_FALSE(tuned_by(done).contains("cuda:1"));

  ScriptedGpu near(",devices=2,same,slow1=2");
  write_list(near.tool, 1);
  CHECK(document(near.tool.run(night(near.tool)))["left_out_devices"].empty());
}

TEST_CASE("a GPU that dies in mid-night costs its running workload, which another takes") {
  Tool home;
  const std::string gone = home.path("gone").string();
  ScriptedGpu gpu(",devices=2,same,gone1=" + gone);
  Tool& tool = gpu.tool;
  write_list(tool, 6);
  const auto process = tool.start(night(tool));
  REQUIRE(has_begun(tool, "cuda:1"));
  std::ofstream(gone) << "x";
  const Ended ended = process->wait();
  INFO(ended.err);
  CHECK(ended.code == 0);
  const Json done = document(ended);
  int tuned = 0;
  for (const auto& [device, count] : tuned_by(done)) tuned += count;
  CHECK(tuned == 6);
  REQUIRE(done["left_out_devices"].size() == 1);
  CHECK(done["left_out_devices"][0]["device"] == "cuda:1");
  CHECK(events(tool, "given_on").size() >= 1);
  CHECK(document(tool.run(night(tool, {"--device", "cuda:0"})))["plan"]["stale"].empty());
}

TEST_CASE("a process of a GPU that is killed costs no workload: a sibling takes it at once") {
  ScriptedGpu gpu(",devices=2,same");
  Tool& tool = gpu.tool;
  write_list(tool, 4);
  const auto process = tool.start(night(tool));
  REQUIRE(has_begun(tool, "cuda:0"));
  const std::set<pid_t> members = members_of(process->pid());
  REQUIRE(members.size() == 2);
  ::kill(*members.begin(), SIGKILL);
  const Ended ended = process->wait();
  INFO(ended.err);
  CHECK(ended.code == 0);
  const Json done = document(ended);
  REQUIRE(done["left_out_devices"].size() == 1);
  CHECK(contains(done["left_out_devices"][0]["why"], "its process died of signal 9"));
  CHECK(done["reworked"].size() == 4);
  CHECK(document(tool.run(night(tool, {"--dry-run"})))["plan"]["stale"].empty());
}

TEST_CASE("SIGTERM ends the processes of all GPUs in good order, with the night's summary; so does the deadline") {
  ScriptedGpu gpu(",devices=2,same");
  Tool& tool = gpu.tool;
  write_list(tool, 8);
  const auto process = tool.start(night(tool));
  REQUIRE(has_begun(tool, "cuda:1"));
  const std::set<pid_t> members = members_of(process->pid());
  CHECK(members.size() == 2);
  // As systemd does it: every process of the unit.
  for (const pid_t one : members) ::kill(one, SIGTERM);
  process->send(SIGTERM);
  const Ended ended = process->wait();
  INFO(ended.err);
  CHECK(ended.code == 128 + SIGTERM);
  CHECK(are_gone(members));
  const Json stopped = document(ended);
  CHECK(stopped["interrupted"] == true);
  CHECK(stopped["left_out_devices"].empty());
  CHECK(stopped["broken"] == nullptr);
  CHECK(stopped["reworked"].size() < 8);
  REQUIRE(events(tool, "night_ended").size() == 1);

  const Json late = document(tool.run(night(tool, {"--time", "1s"})));
  CHECK(late["out_of_time"] == true);
  CHECK(late["interrupted"] == false);
  const Ended rest = tool.run(night(tool));
  CHECK(rest.code == 0);
  CHECK_FALSE(contains(rest.err, "did not end properly"));
  CHECK(document(tool.run(night(tool, {"--dry-run"})))["plan"]["stale"].empty());
}

TEST_CASE("kill -9 of a night on several GPUs ends their processes too, and the next night goes on") {
  ScriptedGpu gpu(",devices=2,same");
  Tool& tool = gpu.tool;
  write_list(tool, 4);
  const auto process = tool.start(night(tool));
  REQUIRE(has_begun(tool, "cuda:1"));
  const std::set<pid_t> members = members_of(process->pid());
  process->send(SIGKILL);
  CHECK(process->wait().signal == SIGKILL);
  CHECK(are_gone(members));
  const Ended next = tool.run(night(tool));
  INFO(next.err);
  CHECK(next.code == 0);
  CHECK(document(next)["left_out_devices"].empty());
  CHECK(document(tool.run(night(tool, {"--dry-run"})))["plan"]["stale"].empty());
  CHECK(tool.run({"cache", "check"}).code == 0);
}

TEST_CASE("nights on GPUs of their own over one cache share the list: nothing is tuned twice") {
  ScriptedGpu gpu(",devices=2,same");
  Tool& tool = gpu.tool;
  tool.set_environment("MOETUNE_NIGHT_MEMBER", "1:0");  // no process of another night, whatever somebody sets
  write_list(tool, 5);
  const auto first = tool.start(night(tool, {"--device", "cuda:0"}));
  const Json second = document(tool.run(night(tool, {"--device", "cuda:1"})));
  const Ended ended = first->wait();
  CHECK(ended.code == 0);
  std::set<std::string> problems;
  std::size_t tuned = 0;
  for (const Json& night : {document(ended), second}) {
    for (const Json& one : night["reworked"]) {
      const bool is_others = one["reason"] == "another night has examined it";
      CHECK(one["verdict"] == (is_others ? "kept" : "tuned"));
      if (is_others) continue;
      problems.insert(one["problem"]);
      ++tuned;
    }
  }
  CHECK(tuned == 5);
  CHECK(problems.size() == 5);
}

TEST_CASE("a kind of GPU of which none works is left out, and the others go on") {
  Tool home;
  const std::string gone = home.path("gone").string();
  std::ofstream(gone) << "x";
  ScriptedGpu gpu(",devices=3,alike=2,gone0=" + gone + ",gone1=" + gone);
  Tool& tool = gpu.tool;
  write_list(tool, 2);
  const Ended ended = tool.run(night(tool));
  INFO(ended.err);
  CHECK(ended.code == 0);
  const Json done = document(ended);
  CHECK(done["left_out_devices"].size() == 2);
  CHECK(tuned_by(done) == std::map<std::string, int>{{"cuda:2", 2}});

  ScriptedGpu none(",devices=2,same,gone0=" + gone + ",gone1=" + gone);
  write_list(none.tool, 1);
  const Ended broken = none.tool.run(night(none.tool));
  CHECK(broken.code == 3);
  CHECK(contains(broken.err, "no GPU works"));
}

TEST_CASE("a GPU in another night is left to it") {
  ScriptedGpu gpu(",devices=2,same");
  Tool& tool = gpu.tool;
  write_list(tool, 6);
  const auto first = tool.start(night(tool, {"--device", "cuda:0"}));
  REQUIRE(has_begun(tool, "cuda:0"));
  for (const std::vector<std::string>& cache :
       {std::vector<std::string>{}, {"--cache", tool.path("other.db").string()}}) {
    std::vector<std::string> alone = night(tool, {"--device", "cuda:0"});
    alone.insert(alone.end(), cache.begin(), cache.end());
    const Ended refused = tool.run(alone);
    CHECK(refused.code == 3);
    CHECK(contains(refused.err, "another night goes on"));
  }
  const Ended second = tool.run(night(tool));
  REQUIRE(document(second)["left_out_devices"].size() == 1);
  CHECK(contains(document(second)["left_out_devices"][0]["why"], "another night goes on"));
  CHECK(second.code == 0);
  CHECK(first->wait().code == 0);
  CHECK(contains(tool.run(night(tool, {"--device", "cuda:0,cuda:0"})).err, "the list has already"));
  CHECK(contains(tool.run(night(tool, {"--device", "cuda:0,other"})).err, "in a list is no GPU"));
  CHECK(tool.run(night(tool, {"--device", "cuda:0,cuda:7"})).code == 3);
}

TEST_CASE("a night yields while memory is short: it waits, says so, and leaves the workload for the next") {
  ScriptedGpu gpu;
  Tool& tool = gpu.tool;
  tool.set_environment("MOETUNE_LIBNVML", paths::fake_libnvml());
  tool.set_environment("MOETUNE_FAKE_NVML", "free0=1000");
  write_list(tool, 1);
  const Ended ended = tool.run(night(tool, {"--quiet-wait", "1"}));
  CHECK(ended.code == 0);
  CHECK(document(ended)["reworked"][0]["verdict"] == "postponed");
  CHECK(contains(document(ended)["reworked"][0]["reason"], "too little memory: the GPU has"));
  CHECK(contains(ended.err, "waits for memory"));
  CHECK(events(tool, "waits_for_memory").size() == 1);
  tool.set_environment("MOETUNE_FAKE_NVML", "free0=4000000");
  CHECK(document(tool.run(night(tool)))["reworked"][0]["verdict"] == "tuned");

  // Another GPU with memory takes what this one postpones, which is reported as it ended there.
  ScriptedGpu pair(",devices=2,same");
  pair.tool.set_environment("MOETUNE_LIBNVML", paths::fake_libnvml());
  pair.tool.set_environment("MOETUNE_FAKE_NVML", "free0=1000");
  write_list(pair.tool, 2);
  const Json shared = document(pair.tool.run(night(pair.tool, {"--quiet-wait", "1"})));
  CHECK(shared["reworked"].size() == 2);
  CHECK(tuned_by(shared) == std::map<std::string, int>{{"cuda:1", 2}});
}

TEST_CASE("recordings stand for GPUs: two share the shapes of a folder, and work at the same time") {
  ScriptedGpu gpu;
  Tool& tool = gpu.tool;
  write_list(tool, 4);
  std::filesystem::create_directories(tool.path("recordings"));
  for (int i = 0; i < 4; ++i) {
    const std::string elements = std::to_string(1024 << i);
    const Ended recorded = tool.run({"record", "decode_kernel", "--problem", "elements=" + elements, "--output",
                                     tool.path("recordings/" + elements + ".json").string(), "--threads", "1"});
    INFO(recorded.err);
    REQUIRE(recorded.code == 0);
  }
  tool.set_environment("MOETUNE_REPLAY_PACE_MS", "300");
  const std::string one = "replay:" + tool.path("recordings").string();
  const auto seconds_on = [&](const std::string& devices, const std::string& cache) {
    const Ended ended =
        tool.run(night(tool, {"--device", devices, "--no-compile", "--cache", tool.path(cache).string()}));
    INFO(ended.err);
    REQUIRE(ended.code == 0);
    const Json done = document(ended);
    CHECK(done["reworked"].size() == 4);
    CHECK(tuned_by(done).size() == done["devices"].size());
    return ended.seconds;
  };
  const double alone = seconds_on(one, "one.db"), together = seconds_on(one + "," + one, "two.db");
  write_list(tool, 5);
  const Ended missing = tool.run(night(tool, {"--device", one, "--no-compile", "--dry-run"}));
  CHECK(missing.code == 1);
  CHECK(contains(missing.err, "no recording in "));
  INFO(alone << " s alone, " << together << " s together");
  CHECK(together < 0.85 * alone);  // on a busy machine; bench/retune_gpus.py holds the bar on GPUs
}
