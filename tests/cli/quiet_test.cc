// What stays on stderr: with --json and --quiet only what a reader must know.
#include "tests/cli/tool.h"

using namespace moetune::testing;

namespace {

std::vector<std::string> with(std::vector<std::string> command, const std::vector<std::string>& more) {
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

}  // namespace

TEST_CASE("--json and --quiet leave nothing on stderr of what goes on") {
  Tool tool;
  const std::string recording = "replay:" + tool.write_recording();
  const std::vector<std::vector<std::string>> commands = {
      {"search", "--device", recording, "--budget", "20"},
      {"search", "--device", recording, "--budget", "20", "--fresh"},
      {"report"},
      {"cache", "ls"},
      {"cache", "check"},
      {"cache", "gc"},
      {"kernels"},
      {"kernels", "router"},
      {"devices"},
      {"compare", "key:1", "key:1"}};
  for (const std::vector<std::string>& command : commands) {
    CAPTURE(command.front());
    const Ended json = tool.run(with(command, {"--json"}));
    document(json);
    CHECK(json.err.empty());
    const Ended quiet = tool.run(with(command, {"--quiet"}));
    CHECK(quiet.err.empty());
    CHECK(quiet.code == json.code);
    CHECK_FALSE(quiet.out.empty());  // the answer is no note
  }
  CHECK_FALSE(tool.run(commands[0]).err.empty());
}

TEST_CASE("warnings and errors stay, whatever is quiet") {
  Tool tool;
  for (const std::string& option : {std::string("--json"), std::string("--quiet")}) {
    CAPTURE(option);
    // A recording in place of a GPU, which nobody asked for.
    const Ended stands_in = tool.run({"search", "decode_attention", "--budget", "1", "--no-compile", option});
    CHECK(contains(stands_in.err, "No GPU here"));
    CHECK_FALSE(contains(stands_in.err, "legal configurations"));
    CHECK(contains(tool.run({"search", "nothing", option}).err, "unknown kernel 'nothing'"));
    CHECK(contains(tool.run({"cache", "export", tool.path("p.pack").string(), option}).err, "moetune: "));
  }
  // Lines that were asked for by name.
  CHECK(contains(
      tool.run({"search", "--device", "replay:" + tool.write_recording(), "--budget", "5", "--verbose", "--json"}).err,
      "  x="));
}
