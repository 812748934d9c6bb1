// moetune serve, and search --server against it, as processes.
#include <regex>

#include "tests/cli/scripted_gpu.h"
#include "tests/cli/served.h"
#include "tests/jobs/made_up_range.h"
#include "tests/sync/scripted_server.h"

using namespace moetune::testing;

namespace {

// "http://127.0.0.1:PORT/" of a service that is starting.
std::string url_of(const Tool& tool, const std::string& name) {
  std::string url;
  const bool listens = within_a_while([&] {
    const std::string text = read_text(tool.path(name));
    const std::size_t at = text.find("http://"), end = text.find(' ', at);
    if (end != std::string::npos) url = text.substr(at, end - at);
    return !url.empty();
  });
  REQUIRE_MESSAGE(listens, read_text(tool.path(name)));
  return url;
}

// Without what depends on the clock and on where the cache lies.
std::string steady_part(const std::string& text) {
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  time ") && !line.starts_with("  cache ")) kept += line + "\n";
  }
  return kept;
}

// Without the lines of progress, of which there is one every ten seconds.
std::string steady_notes(const std::string& text) {
  static const std::regex kPartOfRange("^.* ([0-9]+)/([0-9]+), .*worst regret.*$");
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    std::smatch part;
    const bool is_part = std::regex_match(line, part, kPartOfRange) && part[1] != part[2];
    if (!is_part && !contains(line, " so far")) kept += line + "\n";
  }
  return kept;
}

Json steady_json(Json document) {
  for (const char* name : {"time", "wall_s", "cache"}) document.erase(name);
  return document;
}

}  // namespace

TEST_CASE("search --server prints and returns what the local search does, over a service that is killed") {
  Tool tool;
  const std::string device = "replay:" + tool.write_recording(), cache = tool.path("served.db").string();
  const std::vector<std::string> serve = {"-c", tool.binary() + " serve --listen 127.0.0.1:0 --device " + device +
                                                    " --cache " + cache +
                                                    " > \"$0\" 2>&1 & echo $! > \"$0.pid\"; wait"};
  const auto started = [&](const std::string& name) {
    std::vector<std::string> command = {"/bin/sh"};
    command.insert(command.end(), serve.begin(), serve.end());
    command.push_back(tool.path(name).string());
    return tool.start_program(command);
  };
  const auto signal = [&](const std::string& name, int number) {
    ::kill(static_cast<pid_t>(std::stol(read_text(tool.path(name + ".pid")))), number);
  };
  auto service = started("first");
  const std::string url = url_of(tool, "first");
  const Ended remote = tool.run({"search", "--server", url, "--budget", "50"});
  const Ended local = tool.run({"search", "--device", device, "--budget", "50", "--no-cache"});
  CHECK(remote.code == 0);
  CHECK(steady_part(remote.out) == steady_part(local.out));
  CHECK(remote.err == local.err);
  const Ended wrong = tool.run({"search", "--server", url, "--strategy", "wishful"});
  CHECK(wrong.code == 2);
  CHECK(wrong.err == tool.run({"search", "--device", device, "--strategy", "wishful"}).err);
  CHECK(document(tool.run({"search", "--server", url, "--budget", "20", "--json"}))["trials"]["total"] == 20);

  signal("first", SIGKILL);
  service->wait();
  const Ended nobody = tool.run({"serve", "--listen", "0.0.0.0:0", "--device", device, "--cache", cache});
  CHECK(nobody.code == 2);
  CHECK(contains(nobody.err, "--listen: 0.0.0.0 can be reached by others: that needs --token-file"));
  const Ended unsigned_packs = tool.run({"serve", "--device", device, "--cache", cache, "--sign-key", "key"});
  CHECK(unsigned_packs.code == 2);
  CHECK(contains(unsigned_packs.err, "--sign-key needs --packs, too"));
  service = started("second");
  url_of(tool, "second");
  const Ended second = tool.run({"serve", "--listen", "127.0.0.1:0", "--device", device, "--cache", cache});
  CHECK(second.code == 3);
  CHECK(contains(second.err, "a service has the GPU"));
  signal("second", SIGTERM);
  service->wait();
}

TEST_CASE("search --over and --from-misses print and return the same with --server") {
  Tool tool;
  const Served served(tool, "served", {"--device", "replay:shipped"});
  const std::vector<std::string> over = {"search",      "decode_attention",
                                         "--over",      "batch=1..128,context=2k..8k",
                                         "--problem",   "q_heads=32,kv_heads=8,head_dim=128",
                                         "--budget",    "40",
                                         "--shapes",    "3",
                                         "--no-compile"};
  const auto with = [](std::vector<std::string> command, const std::vector<std::string>& more) {
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  const std::vector<std::string> here = {"--device", "replay:shipped", "--cache", tool.path("local.db").string()};
  const std::vector<std::string> there = {"--server", served.url};
  const Ended local = tool.run(with(over, here)), remote = tool.run(with(over, there));
  CHECK(local.code == 0);
  CHECK(remote.code == 0);
  CHECK(contains(remote.out, "worst cell (bound 2.0%)"));
  CHECK(steady_part(remote.out) == steady_part(local.out));
  CHECK(contains(remote.err, "cubin"));
  CHECK(steady_notes(remote.err) == steady_notes(local.err));
  CHECK(steady_json(document(tool.run(with(with(over, there), {"--json"})))) ==
        steady_json(document(tool.run(with(with(over, here), {"--json"})))));
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"search", "decode_attention", "--over", "batches=1..4"},
                                             {"search", "decode_attention", "--over", "batch=4..1"},
                                             {"search", "--over", "batch=1..4"},
                                             {"search", "decode_attention", "--over", "batch=1..4", "--timing", "x"}}) {
    const bool names_kernel = wrong[1] != "--over";
    const Ended one = tool.run(names_kernel ? with(wrong, {"--device", "replay:shipped"}) : wrong),
                other = tool.run(with(wrong, there));
    CHECK(one.code == 2);
    CHECK(other.code == 2);
    CHECK(other.err == one.err);
  }
  CHECK(contains(tool.run(with(with(over, there), here)).err, "--server searches into the service's cache"));

  tool.write("misses.json",
             R"({"moetune_misses": 1, "hardware": "NVIDIA H200", "misses": [
      {"kernel": "decode_attention", "problem": "batch=8,q_heads=32,kv_heads=8,head_dim=128,context=4096", "count": 30},
      {"kernel": "decode_attention", "problem": "batch=77,context=4096", "count": 2}]})");
  const std::vector<std::string> missed = {
      "search", "--from-misses", tool.path("misses.json").string(), "--budget", "20", "--cold", "--no-compile"};
  const Ended found = tool.run(with(missed, here)), served_found = tool.run(with(missed, there));
  CHECK(contains(found.out, "batch=8"));
  CHECK(served_found.code == found.code);
  CHECK(steady_part(served_found.out) == steady_part(found.out));
  CHECK(steady_notes(served_found.err) == steady_notes(found.err));
}

TEST_CASE("a service signs the pack that it publishes, and sync installs it for who trusts the key") {
  ScriptedGpu gpu;
  Tool& tool = gpu.tool;
  const std::string key = tool.path("key").string(), packs = tool.path("packs").string();
  REQUIRE(tool.run({"cache", "new-key", key}).code == 0);
  REQUIRE(tool.run({"cache", "new-key", tool.path("other").string()}).code == 0);
  for (const char* folder : {"packs", "mine", "theirs"}) std::filesystem::create_directory(tool.path(folder));
  const Served served(tool, "signing", {"--packs", packs, "--sign-key", key, "--threads", "1"});
  const Ended search =
      tool.run({"search", "decode_kernel", "--problem", "elements=1024", "--server", served.url, "--budget", "2"});
  CAPTURE(search.err);
  REQUIRE(search.code == 0);
  REQUIRE(within_a_while([&] { return std::filesystem::exists(packs + "/service.pack"); }));
  CHECK(tool.run({"cache", "check", packs + "/service.pack", "--trust", key + ".pub"}).code == 0);
  const std::string mine = tool.path("mine").string(), theirs = tool.path("theirs").string();
  const Ended trusted = tool.run({"sync", served.url, mine, "--once", "--trust", key + ".pub"});
  CAPTURE(trusted.err);
  CHECK(trusted.code == 0);
  CHECK(contains(trusted.out, "installed service.pack"));
  CHECK(read_text(mine + "/service.pack") == read_text(packs + "/service.pack"));
  CHECK(tool.run({"cache", "check", mine + "/service.pack", "--trust", key + ".pub"}).code == 0);
  const Ended other = tool.run({"sync", served.url, theirs, "--once", "--trust", tool.path("other.pub").string()});
  CHECK(other.code == 1);
  CHECK(contains(other.err, "not a trusted key"));
  CHECK_FALSE(std::filesystem::exists(theirs + "/service.pack"));
  const Ended no_key = tool.run({"serve", "--packs", packs, "--sign-key", tool.path("none").string()});
  CHECK(no_key.code == 2);
  CHECK(contains(no_key.err, "none"));
}

TEST_CASE("retune --server prints the night as the local command does, and refuses what is the service's") {
  Tool tool;
  write_made_up_range(tool.path("recordings"));
  const std::string device = "replay:" + tool.path("recordings").string();
  tool.write("list.json", R"({"moetune_workloads": 1, "workloads": [
      {"kernel": "router", "shapes": ["tokens=64", "tokens=256"]}, {"kernel": "router", "shapes": ["tokens=77"]}]})");
  const std::vector<std::string> night = {"retune",   "--workloads", tool.path("list.json").string(),
                                          "--budget", "20",          "--no-compile"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = night;
    command.insert(command.end(), more.begin(), more.end());
    return tool.run(command);
  };
  const auto steady = [](const std::string& text) {
    return std::regex_replace(text, std::regex("  \\([0-9:]+[^)]*\\)\n"), "\n");
  };
  const Served served(tool, "nights", {"--device", device});
  const Ended remote = with({"--server", served.url});
  const Ended local = with({"--device", device, "--cache", tool.path("local.db").string()});
  CHECK(contains(local.out, "stale: 0 improved, 2 tuned"));
  CHECK(steady(remote.out) == steady(local.out));
  CHECK(remote.code == local.code);
  CHECK(contains(with({"--server", served.url, "--cache", "x.db"}).err, "leave out --cache"));
  CHECK(contains(with({"--server", served.url, "--threads", "2"}).err, "leave out --threads"));
  CHECK(contains(tool.run({"search", "--server", served.url, "--threads", "2"}).err, "leave out --threads"));
}

TEST_CASE("what a service's result has of another type prints as unknown, and a result that is none is refused") {
  Tool tool;
  const auto searched = [&](const std::string& result, const std::vector<std::string>& more) {
    const ScriptedServer server([&](const ScriptedServer::Request& request) {
      if (request.method == "POST") return http_answer(201, R"({"id": 1, "ticket": "t"})");
      if (request.path.starts_with("/v1/events"))
        return http_answer(200, "event: job\ndata: {\"state\": \"done\"}\n\n");
      return http_answer(200, R"({"id": 1, "state": "done", "exit_code": 0, "result": )" + result + "}");
    });
    std::vector<std::string> command = {"search", "router", "--server", server.url()};
    command.insert(command.end(), more.begin(), more.end());
    return tool.run(command);
  };
  const std::vector<std::string> over = {"--over", "tokens=1..8"};
  const Ended search = searched(
      R"({"kernel": "router", "device": [7], "best": {"time_us": "x", "interval_us": [1, "y"]}, "tied_us": {"a": 1},
          "trials": -3, "timings": {"differs": 4, "chained": 5}, "time": null, "cache": {}, "default": {"outcome": 2}})",
      {});
  CAPTURE(search.err);
  CHECK(search.code == 0);
  CHECK(std::regex_search(search.out, std::regex("\n  best +-\n")));
  CHECK(std::regex_search(search.out, std::regex("\n  trials +0\n")));
  const Ended range = searched(
      R"({"kernel": "router", "cells": 3, "cubins": {"a": 1}, "winners": [4, {"timings": {"differs": [5]}}],
                   "certificate": "none", "left_out": [6], "planned": -1})",
      over);
  CAPTURE(range.err);
  CHECK(range.code == 0);
  CHECK(contains(range.out, "no shape outside of the grid was measured"));
  for (const std::vector<std::string>& more : {std::vector<std::string>(), over}) {
    const Ended none = searched("[1]", more);
    CHECK(none.code == 3);
    CHECK(contains(none.err, "is no service of this moetune's version: the result of job 1 is no object"));
  }
}
