// The user's configuration: what it stands for, what goes before it, and what is wrong with one.
#include "tests/cli/served.h"
#include "tests/cli/tool.h"

using namespace moetune::testing;

namespace {

void configure(const Tool& tool, const std::string& text) {
  std::filesystem::create_directories(tool.path("config/moetune"));
  tool.write("config/moetune/config", text);
}

}  // namespace

TEST_CASE("a cache that is configured is the usual one, and --cache, --no-cache and merge go before it") {
  Tool tool;
  const std::string usual = tool.path("usual.db").string(), other = tool.path("other.db").string();
  configure(tool, "# mine\n\n  cache = " + usual + "  \n");
  const std::vector<std::string> search = {"search",   "--device", "replay:" + tool.write_recording(),
                                           "--budget", "5",        "--json"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> command = search;
    command.insert(command.end(), more.begin(), more.end());
    return document(tool.run(command))["cache"];
  };
  // Before anything is tuned the configured cache is no error, as the default one is none.
  CHECK(tool.run({"report"}).code == 0);
  CHECK(contains(tool.run({"report"}).out, usual));
  CHECK(with({}) == usual);
  CHECK(with({"--cache", other}) == other);
  CHECK(with({"--no-cache"}).is_null());
  CHECK(with({"--no-config"}) == tool.path("xdg/moetune/moetune.db").string());
  CHECK(tool.run({"cache", "check", other}).code == 0);
  CHECK(tool.run({"cache", "merge", tool.path("into.db").string(), other}).code == 0);
  CHECK(document(tool.run({"cache", "ls", "--json"}))["cache"] == usual);
}

TEST_CASE("~ is home, and a later line overrides an earlier one") {
  Tool tool;
  configure(tool, "cache = /nowhere/c.db\ncache=~/mine.db\n");
  CHECK(contains(tool.run({"cache", "ls"}).out, tool.path("mine.db").string()));
}

TEST_CASE("a byte order mark before the first setting is no part of its name") {
  Tool tool;
  configure(tool,
            "\xef\xbb\xbf"
            "cache = ~/marked.db\r\n");
  CHECK(contains(tool.run({"cache", "ls"}).out, tool.path("marked.db").string()));
}

TEST_CASE("without XDG_CONFIG_HOME, or with a relative one, the configuration lies below home") {
  for (const char* folder : {"", "config"}) {
    Tool tool(std::map<std::string, std::string>{{"XDG_CONFIG_HOME", folder}});
    std::filesystem::create_directories(tool.path(".config/moetune"));
    tool.write(".config/moetune/config", "cache = ~/below.db\n");
    CHECK(contains(tool.run({"cache", "ls"}).out, tool.path("below.db").string()));
  }
}

TEST_CASE("a device and threads that are configured hold where a command has them") {
  Tool tool;
  const std::string recording = "replay:" + tool.write_recording();
  configure(tool, "device = " + recording + "\nthreads = 2\n");
  CHECK(document(tool.run({"search", "--budget", "5", "--json"}))["device"]["name"] == "Test GPU");
  CHECK(tool.run({"kernels"}).code == 0);  // which has neither
  const Ended refused = tool.run({"verify", "decode_kernel"});
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, tool.path("config/moetune/config").string() + ": device: "));
}

TEST_CASE("a server that is configured searches, unless the line says that the search is here") {
  Tool tool;
  const std::string recording = "replay:" + tool.write_recording();
  configure(tool, "server = http://127.0.0.1:9\nthreads = 3\ncache = ~/c.db\n");
  const Ended remote = tool.run({"search", "decode_kernel"});
  CHECK(remote.code == 3);
  CHECK(contains(remote.err, "127.0.0.1:9"));
  for (const std::vector<std::string>& here : {std::vector<std::string>{"--device", recording},
                                               {"--device", recording, "--no-cache"},
                                               {"--device", recording, "--cache", tool.path("d.db").string()}}) {
    std::vector<std::string> command = {"search", "--budget", "3"};
    command.insert(command.end(), here.begin(), here.end());
    CHECK(tool.run(command).code == 0);
  }
}

TEST_CASE("what is wrong in a configuration is named with its file and line") {
  Tool tool;
  const std::string file = tool.path("config/moetune/config").string();
  const auto refused = [&](const std::string& text) {
    configure(tool, text);
    const Ended ended = tool.run({"cache", "ls"});
    CHECK(ended.code == 2);
    return ended.err;
  };
  CHECK(
      contains(refused("cache = ~/c.db\nchache = x\n"), file + ":2: unknown setting 'chache'; did you mean 'cache'?"));
  CHECK(contains(refused("cache\n"), file + ":1: 'cache' is no setting; write NAME = VALUE"));
  CHECK(contains(refused("[cache]\n"), "is no setting"));
  CHECK(contains(refused("cache =\n"), "cache has no value"));
  CHECK(contains(refused("token = secret\n"), "token-file = FILE"));
  CHECK(contains(refused("budget = 5\n"), "unknown setting 'budget'"));
  CHECK(contains(refused(std::string(2 << 20, '#')), "larger than"));
  configure(tool, "threads = many\n");
  const Ended threads = tool.run({"search", "decode_kernel"});
  CHECK(threads.code == 2);
  CHECK(contains(threads.err, file + ": --threads takes a whole number"));
  // Help and doctor work all the same.
  CHECK(tool.run({"search", "--help"}).code == 0);
  configure(tool, "nonsense\n");
  CHECK(contains(tool.run({"doctor"}).out, "is no setting"));
  CHECK(tool.run({"doctor"}).code == 3);
  CHECK(tool.run({"kernels", "--no-config"}).code == 0);
  std::filesystem::remove(file);
  std::filesystem::create_directories(file);
  CHECK(contains(tool.run({"kernels"}).err, "is a folder, not a file"));
}
