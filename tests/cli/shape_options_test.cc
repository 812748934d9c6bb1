// Dimensions of a kernel as options: --batch 16 --context 4096.
#include "tests/cli/tool.h"

using namespace moetune::testing;

namespace {

std::string problem_of(Tool& tool, std::vector<std::string> command) {
  command.insert(command.end(), {"--arch", "sm_90a", "--json"});
  const Ended ended = tool.run(command);
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  return document(ended)["problem"];
}

}  // namespace

TEST_CASE("a dimension is an option, beside --problem and --preset, and the later of two counts") {
  Tool tool;
  const std::vector<std::string> space = {"space", "decode_attention"};
  const auto problem = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = space;
    command.insert(command.end(), more.begin(), more.end());
    return problem_of(tool, command);
  };
  CHECK(problem({"--batch", "16", "--context", "4096"}) == problem({"--problem", "batch=16,context=4096"}));
  CHECK(problem({"--kv-heads=4", "--dtype", "fp16"}) == problem({"--problem", "kv_heads=4,dtype=fp16"}));
  CHECK(problem({"--kv_heads", "4"}) == problem({"--problem", "kv_heads=4"}));
  CHECK(problem({"--preset", "gpt-oss-20b", "--batch", "2"}) ==
        problem({"--preset", "gpt-oss-20b", "--problem", "batch=2"}));
  CHECK(problem({"--problem", "batch=2,context=512", "--batch", "3"}) == problem({"--problem", "batch=3,context=512"}));
  CHECK(problem({"--batch", "3", "--problem", "batch=2,context=512"}) == problem({"--problem", "batch=2,context=512"}));
  CHECK(problem({"--batch", "3", "--problem", "context=512"}) == problem({"--problem", "batch=3,context=512"}));
  CHECK(problem({"--batch", "3", "--batch", "4"}) == problem({"--problem", "batch=4"}));
  CHECK(problem({"--problem", "batch=2", "--problem", "context=512"}) == problem({"--problem", "context=512"}));
  // Before the kernel as well as behind it.
  CHECK(problem_of(tool, {"space", "--tokens", "5", "router"}) ==
        problem_of(tool, {"space", "router", "--problem", "tokens=5"}));
}

TEST_CASE("an option of another kernel, or a value that a dimension does not take, is refused by its name") {
  Tool tool;
  const auto refused = [&](const std::vector<std::string>& command) {
    const Ended ended = tool.run(command);
    CHECK(ended.code == 2);
    return ended.err;
  };
  CHECK(contains(refused({"space", "router", "--context", "5"}), "unknown dimension of router '--context'"));
  CHECK(contains(refused({"space", "decode_attention", "--kv-head", "5"}), "did you mean '--kv-heads'"));
  CHECK(contains(refused({"space", "decode_attention", "--batch", "0"}),
                 "--batch: decode_attention: batch=0 is out of range"));
  CHECK(contains(refused({"space", "decode_attention", "--batch", "many"}), "--batch: "));
  CHECK(contains(refused({"space", "decode_attention", "--dtype", "fp8"}), "--dtype: "));
  CHECK(contains(refused({"space", "decode_attention", "--batch", "1,context=5"}), "--batch takes one value"));
  CHECK(contains(refused({"space", "decode_attention", "--batch"}), "--batch needs a value"));
  CHECK(contains(refused({"kernels", "router", "--tokens", "5"}), "unknown option '--tokens'"));
}

TEST_CASE("the help of a command with a kernel lists the kernel's dimensions") {
  Tool tool;
  const std::string help = tool.run({"search", "decode_attention", "--help"}).out;
  CHECK(contains(help, "Dimensions of decode_attention"));
  CHECK(contains(help, "--kv-heads N"));
  CHECK(contains(help, "--dtype NAME"));
  CHECK_FALSE(contains(tool.run({"search", "--help"}).out, "--kv-heads"));
  CHECK(contains(tool.run({"help", "search", "router"}).out, "--top-k N"));
}
