// `moetune search --strategy external:COMMAND` on a recording, with the examples and with shell scripts.
#include <atomic>

#include "tests/cli/tool.h"
#include "tests/sync/scripted_server.h"

using namespace moetune::testing;

namespace {

std::string example(const std::string& name) { return "external:" + paths::source("examples/proposers/" + name); }

std::vector<std::string> search_by(const std::string& strategy, const std::string& recording,
                                   const std::string& budget) {
  return {"search", "--device", "replay:" + recording, "--budget", budget, "--strategy", strategy,
          "--json", "--history"};
}

bool is_running(const std::string& pid) { return std::filesystem::exists("/proc/" + pid + "/stat"); }

// The numbers that a script writes to the file once they are all there.
std::vector<std::string> numbers_in(const std::filesystem::path& file, std::size_t count) {
  std::vector<std::string> numbers;
  REQUIRE(within_a_while([&] {
    numbers.clear();
    std::ifstream in(file);
    for (std::string number; std::getline(in, number);) numbers.push_back(number);
    return numbers.size() == count;
  }));
  return numbers;
}

}  // namespace

TEST_CASE("the random example suggests every trial of a search, in one order for one seed") {
  Tool tool;
  const std::string recording = tool.write_recording();
  auto command = search_by(example("random.py"), recording, "60");
  command.push_back("--no-cache");
  const Json found = document(tool.run(command)), again = document(tool.run(command));
  CHECK(found["strategy"] == "external:random.py");
  CHECK(found["proposer"] == Json{{"name", "random.py"},
                                  {"suggested", 60},
                                  {"rejected", 0},
                                  {"variants", 0},
                                  {"done", false},
                                  {"left_out", nullptr}});
  CHECK(found["trials"]["total"] == 60);
  CHECK(found["history"] == again["history"]);
  command.insert(command.end(), {"--seed", "2"});
  CHECK(document(tool.run(command))["history"] != found["history"]);
  CHECK(document(tool.run({"search", "--device", "replay:" + recording, "--budget", "5", "--json"}))["proposer"]
            .is_null());
}

TEST_CASE("a search by a proposer continues from the cache, which has its name and nothing else of its command") {
  Tool tool;
  const std::string recording = tool.write_recording();
  tool.set_environment("PROPOSER", paths::source("examples/proposers/random.py"));
  const std::string strategy = "external:$PROPOSER --key very-secret-word";
  const Json first = document(tool.run(search_by(strategy, recording, "30")));
  CHECK(first["strategy"] == "external:command");
  const Json second = document(tool.run(search_by(strategy, recording, "50")));
  CHECK(second["trials"]["resumed"] == 30);
  CHECK(second["proposer"]["suggested"] == 50);
  const Ended export_ = tool.run({"cache", "ls", "--json"});
  const std::filesystem::path cache = document(export_)["cache"].get<std::string>();
  REQUIRE(std::filesystem::is_regular_file(cache));
  std::string bytes;
  for (const auto& entry : std::filesystem::directory_iterator(cache.parent_path())) bytes += read_text(entry.path());
  CHECK(contains(bytes, "external:command"));
  CHECK(!contains(bytes, "very-secret-word"));
  CHECK(!contains(bytes, "PROPOSER"));
}

TEST_CASE("a search that a proposer ends, and one that it fails, say so in a line") {
  Tool tool;
  const std::string recording = tool.write_recording();
  const auto run = [&](const std::string& strategy) {
    return tool.run(
        {"search", "--device", "replay:" + recording, "--budget", "40", "--strategy", strategy, "--no-cache"});
  };
  tool.write(
      "list.jsonl",
      "{\"configs\": [{\"x\": 7, \"y\": 42}, {\"x\": 1, \"y\": 1}, {\"x\": 1, \"y\": 1000}]}\n{\"done\": true}\n");
  const Ended ended = run("external:cat " + tool.path("list.jsonl").string());
  INFO(ended.out);
  CHECK(ended.code == 0);
  CHECK(contains(ended.out, "cat: 2 of the 2 trials; 1 more were rejected"));
  CHECK(contains(ended.out, "the proposer had nothing more to suggest"));
  CHECK(contains(ended.out, "x=7,y=42"));
  const Ended failed = run("external:echo hello");
  INFO(failed.err);
  CHECK(failed.code == 0);
  const std::string sentence =
      "The proposer echo is left out, and auto goes on without it: it wrote no message: line 1: ";
  REQUIRE(contains(failed.err, sentence));
  CHECK(failed.err.find(sentence) == failed.err.rfind(sentence));
  CHECK(contains(failed.out, "echo (left out): 0 of the 40 trials"));
}

TEST_CASE("a silent proposer takes no more than the search's time, and Ctrl-C is not held up") {
  Tool tool;
  const std::string recording = tool.write_recording();
  const std::vector<std::string> silent = search_by("external:sleep 1000", recording, "400");
  auto timed = silent;
  timed.insert(timed.end(), {"--time", "1s"});
  const Json found = document(tool.run(timed));
  CHECK(found["out_of_time"] == true);
  CHECK(found["proposer"]["left_out"].is_null());
  const std::string asked = tool.path("asked").string();
  const auto process =
      tool.start(search_by("external:grep -q '\"ask\"'; touch " + asked + "; cat >/dev/null", recording, "400"));
  REQUIRE(within_a_while([&] { return std::filesystem::exists(asked); }));
  process->send(SIGINT);
  const Ended ended = process->wait();
  CHECK(ended.code == 130);
  CHECK(ended.seconds < 30);  // not the 60 s that it may think
}

TEST_CASE("a proposer and all its children are gone after a death of the search") {
  Tool tool;
  const std::string recording = tool.write_recording();
  const std::string pids = tool.path("pids").string();
  // A child in its group, one in a session of its own, and itself; all deaf to polite signals.
  const std::string script = "trap '' TERM INT HUP; sleep 1000 & echo $! >>" + pids +
                             "; setsid sleep 1000 & echo $! >>" + pids + "; echo $$ >>" + pids +
                             "; while :; do sleep 1000; done";
  auto words = search_by("external:" + script, recording, "40");
  words.push_back("--no-cache");
  const auto process = tool.start(words);
  const std::vector<std::string> started = numbers_in(pids, 3);
  process->send(SIGKILL);
  process->wait();
  for (const std::string& pid : started) CHECK(within_a_while([&] { return !is_running(pid); }));
}

TEST_CASE("the language model's example suggests what a model answers") {
  Tool tool;
  const std::string recording = tool.write_recording();
  std::atomic<int> asked = 0;
  ScriptedServer server([&](const ScriptedServer::Request&) {
    const int x = asked++;
    const std::string content =
        "Here they are: [{\"x\": " + std::to_string(x) + ", \"y\": 42}, {\"x\": 1, \"y\": 1000}] Good luck!";
    return http_answer(200, Json{{"choices", {{{"message", {{"content", content}}}}}}}.dump());
  });
  tool.set_environment("OPENAI_BASE_URL", server.url() + "/v1");
  tool.set_environment("OPENAI_API_KEY", "sk-of-a-test");
  tool.set_environment("OPENAI_MODEL", "stand-in");
  auto words = search_by(example("llm.py"), recording, "9");
  words.push_back("--no-cache");
  const Json found = document(tool.run(words));
  CHECK(found["best"]["config"] == "x=7,y=42");
  CHECK(found["proposer"]["name"] == "llm.py");
  CHECK(found["proposer"]["left_out"].is_null());
  CHECK(found["proposer"]["suggested"] == 9);
  const std::vector<ScriptedServer::Request> requests = server.requests();
  REQUIRE(requests.size() >= 9);
  CHECK(requests[0].path == "/v1/chat/completions");
  CHECK(requests[0].has("Authorization: Bearer sk-of-a-test"));
  const Json body = Json::parse(requests[8].body);
  CHECK(body["model"] == "stand-in");
  const std::string system = body["messages"][0]["content"], user = body["messages"][1]["content"];
  CHECK(contains(system, "\"kernel\": \"saxpy\""));
  CHECK(contains(user, "\"config\": {\"x\": 7, \"y\": 42}, \"outcome\": \"ok\""));
  CHECK(contains(user, "unknown value of y '1000'"));
}

TEST_CASE("a model that cannot be reached leaves the search to auto") {
  Tool tool;
  tool.set_environment("OPENAI_BASE_URL", "http://127.0.0.1:1/v1");
  auto words = search_by(example("llm.py"), tool.write_recording(), "20");
  words.push_back("--no-cache");
  const Json found = document(tool.run(words));
  CHECK(found["trials"]["total"] == 20);
  CHECK(contains(found["proposer"]["left_out"].get<std::string>(), "Connection refused"));
}

TEST_CASE("a program is run here and for single searches alone") {
  Tool tool;
  const auto refused = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"search", "router", "--strategy", "external:touch " + tool.path("ran").string()});
    const Ended ended = tool.run(words);
    CHECK(ended.code == 2);
    CHECK(!std::filesystem::exists(tool.path("ran")));
    return ended.err;
  };
  const std::string why = "--strategy external: runs a program here for single searches; leave out --server and --over";
  CHECK(contains(refused({"--over", "tokens=1..16"}), why));
  CHECK(contains(refused({"--server", "http://127.0.0.1:1"}), why));
  CHECK(contains(tool.run({"search", "router", "--strategy", "external:"}).err,
                 "--strategy: external: needs the command of a program, as in external:./propose.py"));
}
