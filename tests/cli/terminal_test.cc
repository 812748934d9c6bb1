// What a person sees on a terminal: tables that fit it, and nothing but the document with --json.
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/cache.h"
#include "tests/cli/tool.h"

using namespace moetune::testing;

namespace {

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    longest = std::max<std::size_t>(longest, static_cast<std::size_t>(std::count_if(
                                                 line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; })));
    begin = end + 1;
  }
  return longest;
}

// What the command writes to a terminal.
std::string on_terminal(const std::vector<std::string>& command, const std::string& home,
                        const std::string& pager = "cat") {
  int terminal = -1;
  winsize screen = {.ws_row = 24, .ws_col = 80};
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &screen);
  REQUIRE(child >= 0);
  if (child == 0) {
    setenv("HOME", home.c_str(), 1);
    setenv("XDG_CACHE_HOME", home.c_str(), 1);
    setenv("MOETUNE_LIBCUDA", (home + "/no-libcuda").c_str(), 1);
    setenv("TERM", "xterm", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    setenv("XDG_CONFIG_HOME", home.c_str(), 1);
    setenv("PAGER", pager.c_str(), 1);
    unsetenv("COLUMNS");
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execv(words[0], words.data());
    _exit(127);
  }
  std::string text;
  char part[4096];
  for (ssize_t size; (size = read(terminal, part, sizeof part)) > 0;) text.append(part, static_cast<std::size_t>(size));
  close(terminal);
  waitpid(child, nullptr, 0);
  return text;
}

}  // namespace

TEST_CASE("tables fit the screen that COLUMNS names, and --wide gives whole lines") {
  Tool tool(std::map<std::string, std::string>{{"COLUMNS", "80"}});
  const std::string recording = "replay:" + tool.write_recording();
  REQUIRE(tool.run({"search", "--device", recording, "--budget", "20"}).code == 0);
  for (const std::vector<std::string>& command : {std::vector<std::string>{"report"},
                                                  {"cache", "ls"},
                                                  {"devices"},
                                                  {"kernels", "decode_attention"},
                                                  {"space", "decode_attention", "--arch", "sm_90a"}}) {
    CAPTURE(command.front());
    const Ended ended = tool.run(command);
    CHECK(ended.code == 0);
    CHECK(longest_line(ended.out) <= 80);
  }
  std::vector<std::string> wide = {"devices", "--wide"};
  CHECK(longest_line(tool.run(wide).out) > 150);
  CHECK(contains(tool.run(wide).out, "kv_heads="));
}

TEST_CASE("on a terminal --json prints the document and nothing else") {
  Tool tool;
  const std::string folder = tool.path("home").string();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"kernels", "--json"}, {"report", "--json"}, {"report", "nothing", "--json"}}) {
    CAPTURE(words.front());
    std::vector<std::string> command = words;
    command.insert(command.begin(), tool.binary());
    CHECK(Json::accept(on_terminal(command, folder)));
  }
}

TEST_CASE("long lists go through a pager on a terminal, and nowhere else") {
  Tool tool;
  const std::string folder = tool.path("home").string(), cache = tool.path("c.db").string();
  REQUIRE(
      tool.run({"search", "--device", "replay:" + tool.write_recording(), "--budget", "20", "--cache", cache}).code ==
      0);
  for (const std::vector<std::string>& verb : {std::vector<std::string>{"report"}, {"cache", "ls"}}) {
    std::vector<std::string> command = verb;
    command.insert(command.begin(), tool.binary());
    command.insert(command.end(), {"--cache", cache});
    const std::string paged = on_terminal(command, folder, "sed 's/^/paged: /'");
    CHECK(contains(paged, "paged: "));
    CHECK(contains(paged, "saxpy"));
    CHECK(longest_line(paged) <= 80 + 8);  // as wide as the terminal behind the pager
    CHECK_FALSE(contains(on_terminal(command, folder, "cat"), "paged"));
    // A pager that ends early, or is none, is no error.
    CHECK_FALSE(contains(on_terminal(command, folder, "true"), "moetune:"));
    CHECK_FALSE(contains(on_terminal(command, folder, "no-such-pager-anywhere"), "disk full"));
    CHECK_FALSE(contains(on_terminal(command, folder, ""), "paged"));
  }
  Tool piped(std::map<std::string, std::string>{{"PAGER", "sed 's/^/paged: /'"}, {"TERM", "xterm"}});
  CHECK_FALSE(contains(piped.run({"report", "--cache", cache}).out, "paged"));
}

TEST_CASE("a terminal has colours unless NO_COLOR is set, a pipe has none, and --color overrules both") {
  Tool tool;
  const std::string folder = tool.path("home").string(), cache = tool.path("c.db").string();
  REQUIRE(
      tool.run({"search", "--device", "replay:" + tool.write_recording(), "--budget", "20", "--cache", cache}).code ==
      0);
  CHECK(contains(tool.run({"report", "--cache", cache, "--color=always"}).out, "\x1b["));
  CHECK_FALSE(contains(tool.run({"report", "--cache", cache, "--color", "auto"}).out, "\x1b["));
  CHECK_FALSE(contains(on_terminal({tool.binary(), "report", "--cache", cache, "--color=never"}, folder), "\x1b["));
  unsetenv("NO_COLOR");
  CHECK(contains(on_terminal({tool.binary(), "report", "--cache", cache}, folder), "\x1b[1mTest GPU (recorded)"));
  setenv("NO_COLOR", "1", 1);
  CHECK_FALSE(contains(on_terminal({tool.binary(), "report", "--cache", cache}, folder), "\x1b["));
  unsetenv("NO_COLOR");
  const Ended wrong = tool.run({"report", "--color", "sometimes"});
  CHECK(wrong.code == 2);
  CHECK(contains(wrong.err, "--color: unknown value 'sometimes'; known: auto, always, never"));
  CHECK_FALSE(contains(tool.run({"report", "--cache", cache, "--color=always", "--json"}).out, "\x1b["));
}

TEST_CASE("a long list is cut on a terminal, with a word on how to see all, and whole elsewhere") {
  Tool tool;
  const std::string folder = tool.path("home").string(), path = tool.path("c.db").string();
  {
    moetune::Cache cache = moetune::Cache::open(path, moetune::Cache::Mode::create);
    moetune::WorkloadKey key{.kernel = "saxpy", .source_digest = "s", .toolchain = "t"};
    key.hardware.name = "Test GPU";
    for (int i = 0; i < 150; ++i) {
      key.problem = "elements=" + std::to_string(1000 + i);
      cache.trials.put(cache.workloads.id(key), {.config = "block=64", .outcome = "ok", .time_us = 10});
    }
  }
  const auto rows = [](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find("elements=1", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  for (const std::vector<std::string>& verb : {std::vector<std::string>{"report"}, {"cache", "ls"}}) {
    std::vector<std::string> command = verb;
    command.insert(command.end(), {"--cache", path});
    CHECK(rows(tool.run(command).out) == 150);
    command.insert(command.begin(), tool.binary());
    const std::string seen = on_terminal(command, folder);
    CHECK(rows(seen) == 100);
    CHECK(contains(seen, "--limit N"));
    command.insert(command.end(), {"--limit", "120"});
    CHECK(rows(on_terminal(command, folder)) == 120);
  }
}
