#include "cli/ascii.h"

#include "tests/cli/tool.h"

using moetune::to_ascii;
using namespace moetune::testing;

namespace {

bool is_ascii(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

TEST_CASE("text becomes ASCII without losing its sense") {
  CHECK(to_ascii("12.1 µs ±0.3% 1.02× …") == "12.1 us +-0.3% 1.02x ...");
  CHECK(to_ascii("plain \t\n") == "plain \t\n");
  CHECK(to_ascii("ü漢") == "??");
  CHECK(to_ascii("\xff\xc3") == "??");  // bytes that are no characters
}

TEST_CASE("where the locale does not write UTF-8 all that is printed is ASCII, and a document stays as it is") {
  const std::vector<std::map<std::string, std::string>> ascii = {
      {{"LC_ALL", "C"}}, {{"LC_ALL", ""}, {"LC_CTYPE", "POSIX"}}, {{"LC_ALL", ""}, {"LC_CTYPE", ""}, {"LANG", ""}}};
  for (const auto& environment : ascii) {
    Tool tool(environment);
    const Ended found = tool.run({"search", "--device", "replay:" + tool.write_recording(), "--budget", "20"});
    REQUIRE(found.code == 0);
    CHECK(is_ascii(found.out + found.err));
    const std::vector<std::vector<std::string>> commands = {
        {"report", "--details"}, {"cache", "ls"}, {"space", "decode_attention", "--arch", "sm_90a"},
        {"space", "--help"},     {"devices"},     {"help", "environment"},
        {"kernels", "router"}};
    for (const std::vector<std::string>& command : commands) {
      CAPTURE(command.front());
      const Ended ended = tool.run(command);
      CHECK(is_ascii(ended.out + ended.err));
      CHECK_FALSE(contains(ended.out, "?"));
    }
    CHECK(contains(tool.run({"report"}).out, " ms"));
  }
  // One that is named and not installed is taken at its word.
  Tool named(std::map<std::string, std::string>{{"LC_ALL", "xx_XX.UTF-8"}});
  CHECK_FALSE(is_ascii(named.run({"space", "decode_attention", "--help"}).out));
}
