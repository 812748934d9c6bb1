// `moetune compile`, and taking winners out of the cache: what works without a GPU.
#include <filesystem>

#include "tests/cli/tool.h"

using namespace moetune::testing;

TEST_CASE("compile shows what ptxas says of one configuration, without a GPU") {
  Tool tool;
  const std::string cubin = tool.path("x.cubin").string();
  const Ended text = tool.run({"compile", "decode_kernel", "--config", "stages=2", "--log"});
  CHECK(text.code == 0);
  CHECK(contains(text.out, "registers"));
  CHECK(contains(text.out, "ptxas info"));
  const Json said = document(tool.run({"compile", "decode_kernel", "--arch", "sm_80", "--cubin", cubin, "--json"}));
  CHECK(said["outcome"] == "ok");
  CHECK(said["architecture"] == "sm_80");
  REQUIRE(said["entries"].size() >= 1);
  CHECK(said["entries"][0]["registers"].get<int>() > 0);
  CHECK(std::filesystem::file_size(cubin) == said["cubin_bytes"].get<std::uintmax_t>());
  CHECK(tool.run({"compile", "decode_kernel", "--cubin", cubin}).code == 2);  // it is there now
}

TEST_CASE("compile of an edited template shows its errors and exits with 1") {
  Tool tool;
  const std::filesystem::path data = tool.copy_data();
  std::ofstream(data / "templates/decode_kernel/decode_kernel.cu", std::ios::app) << "\nthis is no C++;\n";
  tool.set_environment("MOETUNE_DATA_DIR", data.string());
  const Ended ended = tool.run({"compile", "decode_kernel"});
  CHECK(ended.code == 1);
  CHECK(contains(ended.out, "failed"));
  CHECK(contains(ended.out, "decode_kernel.cu"));
}

TEST_CASE("compile refuses what cannot be meant") {
  Tool tool;
  const auto fails = [&](std::vector<std::string> words, const std::string& part) {
    words.insert(words.begin(), "compile");
    const Ended ended = tool.run(words);
    INFO(ended.err);
    CHECK(ended.code == 2);
    CHECK(contains(ended.err, part));
  };
  fails({"decode_kernl"}, "did you mean 'decode_kernel'?");
  fails({"decode_kernel", "--arch", "sm_90"}, "--arch: unknown architecture 'sm_90'; did you mean 'sm_90a'?");
  fails({"decode_kernel", "--config", "stages=77"}, "--config");
}
