#include <csignal>
#include <set>

#include "tests/cli/tool.h"

using namespace moetune::testing;

namespace {

// Large enough that it runs for a while when every trial is committed and printed.
constexpr int kColumns = 200;
constexpr int kLegal = kColumns * 100;

std::vector<std::string> long_search(const std::string& recording, const std::vector<std::string>& more) {
  std::vector<std::string> command = {"search", "--device", "replay:" + recording, "--strategy",
                                      "random", "--budget", std::to_string(kLegal)};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

// Trials that stderr's --verbose lines show: those are committed.
std::size_t trial_lines(const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find("  x=", at)) != std::string::npos; ++at) ++count;
  return count;
}

}  // namespace

TEST_CASE("kill -9 loses no committed trial, and the same command continues") {
  Tool tool;
  const std::string recording = tool.write_recording(kColumns);
  const auto process = tool.start(long_search(recording, {"--verbose"}));
  REQUIRE(process->says_lines(300));
  process->send(SIGKILL);
  const Ended killed = process->wait();
  REQUIRE(killed.signal == SIGKILL);
  const std::size_t committed = trial_lines(killed.err);
  REQUIRE(committed >= 250);
  REQUIRE(committed < kLegal);

  CHECK(tool.run({"cache", "check"}).code == 0);
  const Json resumed = document(
      tool.run({"search", "--device", "replay:" + recording, "--strategy", "random", "--budget", "5000", "--json"}));
  // One more may have been committed than was printed.
  CHECK(resumed["trials"]["resumed"].get<std::size_t>() >= std::min<std::size_t>(committed, 5000));
  CHECK(resumed["trials"]["total"] == 5000);
}

TEST_CASE("a resumed search follows the trajectory of one that was never stopped") {
  Tool tool;
  const std::string recording = tool.write_recording();
  const std::vector<std::string> command = {"search", "--device", "replay:" + recording, "--history", "--json"};
  auto run = [&](const std::string& budget, const std::string& cache) {
    std::vector<std::string> all = command;
    all.insert(all.end(), {"--budget", budget, "--cache", tool.path(cache).string()});
    return document(tool.run(all));
  };
  run("80", "stopped.db");
  const Json continued = run("200", "stopped.db");
  const Json straight = run("200", "straight.db");
  CHECK(continued["trials"]["resumed"].get<int>() >= 48);  // those in flight at the end of a budget may differ
  CHECK(straight["trials"]["resumed"] == 0);
  CHECK(continued["best"]["config"] == straight["best"]["config"]);
  REQUIRE(continued["history"].size() == straight["history"].size());
  for (std::size_t i = 0; i < straight["history"].size(); ++i) {
    CHECK(continued["history"][i]["config"] == straight["history"][i]["config"]);
    CHECK(continued["history"][i]["outcome"] == straight["history"][i]["outcome"]);
  }
}

TEST_CASE("Ctrl-C keeps the trials so far, exits with 130, and the next run resumes") {
  Tool tool;
  const std::string recording = tool.write_recording(kColumns);
  const auto process = tool.start(long_search(recording, {"--verbose", "--json"}));
  REQUIRE(process->says_lines(300));
  process->send(SIGINT);
  const Ended stopped = process->wait();
  CHECK(stopped.code == 130);
  const Json partial = document(stopped);
  CHECK(partial["interrupted"] == true);
  const auto total = partial["trials"]["total"].get<std::size_t>();
  CHECK(total >= 250);
  CHECK(total < kLegal);

  const Json resumed = document(tool.run({"search", "--device", "replay:" + recording, "--strategy", "random",
                                          "--budget", std::to_string(total + 100), "--json"}));
  CHECK(resumed["trials"]["resumed"] == total);
  CHECK(resumed["trials"]["total"] == total + 100);
}

TEST_CASE("SIGTERM stops a search as Ctrl-C does, with its own exit code") {
  Tool tool;
  const std::string recording = tool.write_recording(kColumns);
  const auto process = tool.start(long_search(recording, {"--verbose"}));
  REQUIRE(process->says_lines(100));
  process->send(SIGTERM);
  CHECK(process->wait().code == 128 + SIGTERM);
}

TEST_CASE("a SIGINT that was ignored already stays ignored") {
  Tool tool;
  const std::string recording = tool.write_recording(kColumns);
  const auto before = std::signal(SIGINT, SIG_IGN);
  const auto process = tool.start({"search", "--device", "replay:" + recording, "--strategy", "random", "--budget",
                                   "1000", "--verbose", "--no-cache"});
  std::signal(SIGINT, before);
  REQUIRE(process->says_lines(5));
  process->send(SIGINT);
  CHECK(process->wait().code == 0);
}

TEST_CASE("--fresh is refused, and forgets nothing, while another search of the workload goes on") {
  Tool tool;
  const std::string recording = tool.write_recording(kColumns);
  const auto process = tool.start(long_search(recording, {"--verbose"}));
  REQUIRE(process->says_lines(60));
  const std::vector<std::string> fresh = {
      "search", "--device", "replay:" + recording, "--budget", "50", "--no-compile", "--fresh", "--json"};
  const Ended refused = tool.run(fresh);
  CHECK(refused.code == 3);
  CHECK(contains(document(refused)["error"]["message"], "another search of this workload is running"));
  const Json listed = document(tool.run({"cache", "ls", "--json"}));
  REQUIRE(listed["workloads"].size() == 1);
  CHECK(listed["workloads"][0]["trials"]["total"].get<std::size_t>() >= 50);
  process->send(SIGKILL);
  process->wait();
  CHECK(document(tool.run(fresh))["trials"]["resumed"] == 0);
}
