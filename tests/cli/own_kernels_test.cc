// A user's own kernels: folders with a kernel.json, through every command that takes a kernel.
#include <filesystem>
#include <fstream>

#include "tests/cli/tool.h"
#include "tuner/compile/nvrtc_search.h"

using namespace moetune::testing;
namespace fs = std::filesystem;

namespace {

std::string examples() { return (fs::path(paths::source()) / "examples/kernels").string(); }

// Kernel `twice` of tests/fake_cuda: y = 2x, in three ways, of which one is wrong.
void write_twice(const Tool& tool) {
  fs::create_directories(tool.path("own/twice"));
  tool.write("own/twice/twice.cu", R"(#include "entry.cuh"
#if 0
#include "nowhere.cuh"
#endif
ENTRY(double__us40)
ENTRY(double__us20)
ENTRY(double__wrong)
ENTRY(double__us10)
)");
  tool.write("own/twice/entry.cuh", R"(#define ENTRY(name) \
  extern "C" __global__ void name(const float* x, float* y, long long n) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
)");
  tool.write("own/twice/kernel.json", R"({"kernel": "twice", "source": "twice.cu",
 "problem": [{"name": "n", "default": 1024, "range": [1, 65536], "free": true}],
 "tensors": [{"name": "x", "dtype": "f32", "shape": ["n"]}, {"name": "y", "dtype": "f32", "shape": ["n"], "role": "output", "check": {"terms": 1}}],
 "parameters": [{"name": "way", "values": [0, 1, 2]}, {"name": "threads", "values": [32, 64]}],
 "defaults": [{"config": {"way": 0, "threads": 32}}],
 "launches": [
   {"when": "way == 0", "entry": "double__us40", "grid": 1, "block": "threads", "arguments": ["x", "y", {"i64": "n"}]},
   {"when": "way == 1", "entry": "double__us20", "grid": 1, "block": "threads", "arguments": ["x", "y", {"i64": "n"}]},
   {"when": "way == 2", "entry": "double__wrong", "grid": 1, "block": "threads", "arguments": ["x", "y", {"i64": "n"}]}],
 "reference": {"source": "twice.cu", "launches": [{"entry": "double__us10", "grid": 1, "block": 32, "arguments": ["x", "y", {"i64": "n"}]}]},
 "cost": {"read_bytes": 4, "written_bytes": 4}})");
}

}  // namespace

TEST_CASE("own kernels are listed beside the built-in ones, from the option and from the variable") {
  Tool tool;
  const Json listed = document(tool.run({"kernels", "--kernels", examples(), "--json"}));
  std::vector<std::string> names;
  for (const Json& kernel : listed["kernels"]) names.push_back(kernel["kernel"]);
  for (const char* name : {"decode_attention", "matmul", "softmax", "vector_add"})
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  CHECK(listed["broken"].empty());
  CHECK(contains(tool.run({"kernels", "softmax", "--kernels=" + examples()}).out,
                 "floats that a thread reads at once"));
  CHECK(contains(
      tool.run({"space", "softmax", "--arch", "sm_90a", "--columns", "77", "--kernels", examples()}).out,
      "THREADS"));
  CHECK(contains(tool.run({"kernels", "softmax"}).err, "unknown kernel 'softmax'"));
  CHECK(contains(tool.run({"kernels", "--kernels", "/nowhere"}).err,
                 "--kernels: there is no folder '/nowhere'"));
  tool.set_environment("MOETUNE_KERNELS", examples() + "/softmax:" + examples() + "/matmul");
  CHECK(tool.run({"kernels", "softmax"}).code == 0);
  CHECK(contains(tool.run({"__complete", "compile", "ma"}).out, "matmul"));
}

TEST_CASE("a broken folder is named with its reason, and everything else works") {
  Tool tool;
  write_twice(tool);
  fs::create_directories(tool.path("own/broken"));
  fs::create_directories(tool.path("own/router"));
  tool.write("own/broken/kernel.json", "{}");
  tool.write("own/router/kernel.json", "{}");
  const std::vector<std::string> option = {"--kernels", tool.path("own").string()};
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.end(), option.begin(), option.end());
    return tool.run(words);
  };
  const Ended listed = run({"kernels"});
  CHECK(listed.code == 0);
  CHECK(contains(listed.out, "twice"));
  CHECK(contains(listed.err, "own/broken is left out: "));
  CHECK(document(run({"kernels", "--json"}))["broken"].size() == 2);
  CHECK(contains(run({"kernels", "broken"}).err, "lacks the key 'launches'"));
  const Ended taken = run({"space", "router", "--arch", "sm_90a"});
  CHECK(taken.code == 2);
  CHECK(contains(taken.err, "'router' is a built-in kernel, which a folder cannot replace: rename " +
                                tool.path("own/router").string()));
  CHECK(run({"space", "twice", "--arch", "sm_90a"}).code == 0);
  CHECK(run({"space", "decode_kernel", "--arch", "sm_90a"}).code == 0);
}

TEST_CASE("the examples compile: extern \"C\" entries, C++ ones and instances of templates") {
  Tool tool({{"MOETUNE_KERNELS", examples()}});
  const auto compiled = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "compile");
    words.insert(words.end(), {"--arch", "sm_90a", "--json"});
    const Ended ended = tool.run(words);
    INFO(ended.err);
    REQUIRE(ended.code == 0);
    return document(ended);
  };
  for (const char* config : {"THREADS=256,VECTOR=4,KEEP=0", "THREADS=64,VECTOR=1,KEEP=1"}) {
    const Json softmax = compiled({"softmax", "--config", config});
    CHECK(softmax["entries"][0]["entry"] == "softmax");
    CHECK(softmax["cannot_launch_because"].is_null());
  }
  const Json added = compiled({"vector_add"});
  CHECK(contains(added["entries"][0]["entry"].get<std::string>(), "_Z10vector_add"));
  CHECK(added["cannot_launch_because"].is_null());
  if (moetune::toolkit_headers().empty()) {
    MESSAGE("SKIPPED: there are no headers of a CUDA toolkit for matmul");
    return;
  }
  for (const char* dtype : {"bf16", "f16"}) {
    const Json product = compiled({"matmul", "--dtype", dtype, "--config", "splits=2"});
    REQUIRE(product["entries"].size() == 2);
    CHECK(contains(product["entries"][0]["entry"].get<std::string>(), "_Z4gemmI"));
    CHECK(contains(product["entries"][1]["entry"].get<std::string>(), "_Z6add_up"));
    CHECK(product["cannot_launch_because"].is_null());
  }
}

TEST_CASE("an entry that is not there is answered with those that are") {
  Tool tool;
  write_twice(tool);
  const std::string file = tool.path("own/twice/kernel.json").string();
  const auto said_with = [&](const std::string& entry) {
    std::ifstream in(file);
    std::string text((std::istreambuf_iterator<char>(in)), {});
    text.replace(text.find("double__us40"), 12, entry);
    fs::create_directories(tool.path("changed/twice"));
    for (const char* part : {"twice.cu", "entry.cuh"})
      fs::copy_file(tool.path("own/twice") / part, tool.path("changed/twice") / part,
                    fs::copy_options::overwrite_existing);
    tool.write("changed/twice/kernel.json", text);
    const Ended ended =
        tool.run({"compile", "twice", "--arch", "sm_90a", "--kernels", tool.path("changed").string()});
    CAPTURE(ended.err);
    CHECK(ended.code == 1);
    return ended.out + ended.err;
  };
  CHECK(contains(said_with("doubel"),
                 "doubel: no such entry in the build, which has double__us10, double__us20"));
  CHECK(contains(said_with("doubel<3>"), "unknown entry 'doubel'"));
}

TEST_CASE("an own kernel is searched, judged, stored, verified and reported like any other") {
  Tool tool({{"MOETUNE_LIBCUDA", paths::fake_libcuda()}, {"MOETUNE_FAKE_CUDA", "memory=4194304"}});
  write_twice(tool);
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--kernels", tool.path("own").string(), "--json"});
    const Ended ended = tool.run(words);
    INFO(ended.err);
    CHECK(ended.code == 0);
    return document(ended);
  };
  const Json found = run({"search", "twice", "--n", "4096"});
  CHECK(contains(found["best"]["config"].get<std::string>(), "way=1"));
  CHECK(found["best"]["time_us"].get<double>() == doctest::Approx(20));
  CHECK(found["default"]["time_us"].get<double>() == doctest::Approx(40));
  CHECK(found["trials"]["wrong_result"].get<int>() == 2);
  CHECK(run({"verify", "twice", "--n", "4096"})["right"] == true);
  CHECK(contains(run({"report"}).dump(), "twice"));

  // Its source and its launches are part of what was tuned.
  CHECK(run({"cache", "ls"})["workloads"][0]["stale"].empty());
  tool.write("own/twice/entry.cuh", R"(#define ENTRY(name) \
  extern "C" __global__ void name(const float* x, float* y, long long n) { \
    y[threadIdx.x] = x[threadIdx.x] + x[threadIdx.x];                      \
  }
)");
  CHECK(run({"cache", "ls"})["workloads"][0]["stale"].dump() != "[]");
}
