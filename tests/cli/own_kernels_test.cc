// A user's own kernels: folders with a kernel.json, through every command that takes a kernel.
#include <filesystem>
#include <fstream>

#include "tests/cli/served.h"
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

// As NumPy writes 1024 floats.
void write_floats(const Tool& tool, const std::string& path, float first, float step) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1024,), }";
  header.resize(118, ' ');
  std::ofstream out(tool.path(path), std::ios::binary);
  out << std::string("\x93NUMPY\x01\x00v\x00", 10) << header;
  for (int i = 0; i < 1024; ++i) {
    const float value = first + step * static_cast<float>(i);
    out.write(reinterpret_cast<const char*>(&value), sizeof value);
  }
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
  CHECK(
      contains(tool.run({"kernels", "softmax", "--kernels=" + examples()}).out, "floats that a thread reads at once"));
  CHECK(contains(tool.run({"space", "softmax", "--arch", "sm_90a", "--columns", "77", "--kernels", examples()}).out,
                 "THREADS"));
  CHECK(contains(tool.run({"kernels", "softmax"}).err, "unknown kernel 'softmax'"));
  CHECK(contains(tool.run({"kernels", "--kernels", "/nowhere"}).err, "--kernels: there is no folder '/nowhere'"));
  tool.set_environment("MOETUNE_KERNELS", examples() + "/softmax:" + examples() + "/matmul");
  CHECK(tool.run({"kernels", "softmax"}).code == 0);
  CHECK(contains(tool.run({"__complete", "compile", "ma"}).out, "matmul"));
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
  if (moetune::toolkit_headers("").empty()) {
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
    const Ended ended = tool.run({"compile", "twice", "--arch", "sm_90a", "--kernels", tool.path("changed").string()});
    CAPTURE(ended.err);
    CHECK(ended.code == 1);
    return ended.out + ended.err;
  };
  CHECK(contains(said_with("doubel"), "doubel: no such entry in the build, which has double__us10, double__us20"));
  CHECK(contains(said_with("doubel<3>"), "unknown entry 'doubel'"));
}

// "sound" of a kernel that compiles and can be launched, else why not.
static std::string said_of(Tool& tool, const std::string& source, const std::string& arguments) {
  fs::create_directories(tool.path("mine/one"));
  tool.write("mine/one/one.cu", source);
  tool.write("mine/one/kernel.json", R"({"kernel": "one", "source": "one.cu",
 "problem": [{"name": "n", "default": 1024}], "parameters": [{"name": "THREADS", "values": [32, 64]}],
 "tensors": [{"name": "y", "dtype": "f32", "shape": ["n"], "role": "output", "check": "exact"}],
 "defaults": [{"config": {"THREADS": 32}}], "reference": {"config": "THREADS=32"},
 "launches": [{"entry": "one", "grid": 1, "block": "THREADS", "arguments": [)" +
                                         arguments + "]}]}");
  const Ended ended =
      tool.run({"compile", "one", "--arch", "sm_90a", "--json", "--kernels", tool.path("mine").string()});
  const Json built = document(ended);
  if (!built.contains("entries") || built["entries"].empty()) return ended.out;
  return built["cannot_launch_because"].is_null() ? "sound" : built["cannot_launch_because"].get<std::string>();
}

TEST_CASE("an own source includes the host's headers, and CUDA's") {
  if (moetune::toolkit_headers("").empty()) {
    MESSAGE("SKIPPED: there are no headers of a CUDA toolkit");
    return;
  }
  Tool tool;
  const char* const kSources[] = {
      R"(#include <math.h>
#include "stdint.h"
__global__ void one(float* y, int32_t n) { y[n] = INFINITY + M_PI + INT64_MAX + FLT_MAX; })",
      R"(#include <cuda.h>
#include <cstdint>
#include <type_traits>
#include "cuda_fp16.h"
__global__ void one(float* y, int n) {
  static_assert(std::is_same<std::uint8_t, unsigned char>::value && sizeof(CUtensorMap) == 128);
  y[n] = __half2float(__float2half(1));
})",
      R"(#include <cooperative_groups.h>
#include <cub/block/block_reduce.cuh>
__global__ void one(float* y, int n) {
  using Sum = cub::BlockReduce<float, THREADS>;
  __shared__ typename Sum::TempStorage storage;
  const float sum = Sum(storage).Sum(y[threadIdx.x]);
  cooperative_groups::this_thread_block().sync();
  y[n] = sum;
})"};
  for (const char* const source : kSources) CHECK(said_of(tool, source, R"("y", {"i32": "n"})") == "sound");
  CHECK(contains(said_of(tool, "#include </etc/passwd>\n", "\"y\""),
                 "an include names a file of the kernel's folder, in quotes, or a header of CUDA"));
}

TEST_CASE("arguments that are not the function's, and a source that is not there, are named") {
  Tool tool;
  const std::string source = "__global__ void one(float* y, size_t n) { y[n] = 1; }";
  CHECK(said_of(tool, source, R"("y", {"i64": "n"})") == "sound");
  CHECK(said_of(tool, source, R"("y")") == "one: the function has 2 parameters, and 1 arguments are given");
  CHECK(said_of(tool, source, R"("y", {"i32": "n"})") ==
        "one: the function's parameter 1 has 8 bytes, and its argument 4");
  fs::remove(tool.path("mine/one/one.cu"));
  const Ended ended = tool.run({"compile", "one", "--arch", "sm_90a", "--kernels", tool.path("mine").string()});
  CHECK(ended.code == 2);
  CHECK(contains(ended.err, "there is no file " + tool.path("mine/one/one.cu").string()));
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
  CHECK(run({"bench", "twice", "--n", "4096"}).dump().find("way=1") != std::string::npos);
  // Its one dimension is free, so that its family has no text.
  CHECK(run({"cache", "export", tool.path("twice.pack").string(), "--kernel", "twice"})["winners"] == 1);
  CHECK(run({"cache", "check", tool.path("twice.pack").string()})["problems"].empty());

  // Its source and its launches are part of what was tuned.
  CHECK(run({"cache", "ls"})["workloads"][0]["stale"].empty());
  tool.write("own/twice/entry.cuh", R"(#define ENTRY(name) \
  extern "C" __global__ void name(const float* x, float* y, long long n) { \
    y[threadIdx.x] = x[threadIdx.x] + x[threadIdx.x];                      \
  }
)");
  CHECK(run({"cache", "ls"})["workloads"][0]["stale"].dump() != "[]");
}

TEST_CASE("a service searches kernels of folders that it was given, and no job names another") {
  Tool tool({{"MOETUNE_LIBCUDA", paths::fake_libcuda()}, {"MOETUNE_FAKE_CUDA", "memory=4194304"}});
  write_twice(tool);
  const std::string own = tool.path("own").string();
  const Served with(tool, "with", {"--kernels", own}), without(tool, "without", {"--device", "replay:shipped"});
  const auto searched = [&](const Served& served) {
    return tool.run({"search", "twice", "--problem", "n=4096", "--kernels", own, "--server", served.url, "--json"});
  };
  const Ended found = searched(with);
  INFO(found.err);
  REQUIRE(found.code == 0);
  CHECK(contains(document(found)["best"]["config"].get<std::string>(), "way=1"));
  const Ended refused = searched(without);
  CHECK(refused.code == 2);
  CHECK(contains(refused.out + refused.err, "unknown kernel 'twice'"));
}

TEST_CASE("folders of one's own change nothing of built-in kernels") {
  Tool tool;
  for (const std::string kernel : {"decode_kernel", "add_rmsnorm"}) {
    const auto built = [&](const std::string& name, std::vector<std::string> more) {
      const std::string cubin = tool.path(kernel + name).string();
      more.insert(more.begin(), {"compile", kernel, "--arch", "sm_90a", "--cubin", cubin});
      CHECK(tool.run(more).code == 0);
      return read_text(cubin);
    };
    const std::string alone = built("alone", {});
    CHECK(alone.size() > 1000);
    CHECK(alone == built("beside", {"--kernels", examples()}));
  }
}

TEST_CASE("inputs and right outputs of an own kernel may be files") {
  Tool tool({{"MOETUNE_LIBCUDA", paths::fake_libcuda()}, {"MOETUNE_FAKE_CUDA", "memory=4194304"}});
  write_twice(tool);
  std::ifstream in(tool.path("own/twice/kernel.json"));
  Json json = Json::parse(in);
  json["tensors"][0]["fill"] = {{"files", {"x.0.npy", "x.1.npy"}}};
  json["reference"] = {{"arrays", {{"y", {"y.0.npy", "y.1.npy"}}}}};
  tool.write("own/twice/kernel.json", json.dump());
  for (const int which : {0, 1}) {
    const auto first = static_cast<float>(which);
    write_floats(tool, "own/twice/x." + std::to_string(which) + ".npy", first, 1);
    write_floats(tool, "own/twice/y." + std::to_string(which) + ".npy", 2 * first, 2);
  }
  const auto run = [&](std::vector<std::string> words, int code = 0) {
    words.insert(words.end(), {"--kernels", tool.path("own").string(), "--json"});
    const Ended ended = tool.run(words);
    INFO(ended.err);
    CHECK(ended.code == code);
    return document(ended);
  };
  const Json found = run({"search", "twice"});
  CHECK(contains(found["best"]["config"].get<std::string>(), "way=1"));
  CHECK(found["trials"]["wrong_result"].get<int>() == 2);
  const Json verified = run({"verify", "twice", "--seeds", "2"});
  CHECK(verified["right"] == true);
  CHECK(verified["inputs_from_files"] == true);
  CHECK(contains(tool.run({"verify", "twice", "--kernels", tool.path("own").string()}).out, "none of them is fresh"));
  const Json timed = run({"bench", "twice"});
  for (const Json& row : timed["rows"]) CHECK(row["what"] != "reference");

  // Another content is another verdict: what was right is judged again.
  write_floats(tool, "own/twice/y.1.npy", 3, 2);
  CHECK(run({"search", "twice"}, 1)["trials"]["wrong_result"].get<int>() > 0);
  write_floats(tool, "own/twice/y.1.npy", 2, 2);
  write_floats(tool, "own/twice/y.0.npy", 1, 2);
  // Right on the inputs of this seed, and wrong on the others at the same addresses.
  CHECK(run({"search", "twice", "--fresh"}, 1)["best"].is_null());
  fs::remove(tool.path("own/twice/x.0.npy"));
  CHECK(contains(tool.run({"search", "twice", "--kernels", tool.path("own").string()}).err, "x.0.npy"));
}

TEST_CASE("import writes a folder, and never over another one") {
  Tool tool;
  tool.write("description.json", R"json({"ConfigurationSpace": {"TuningParameters": [
      {"Name": "block", "Type": "int", "Values": "[2**i for i in range(5, 9)]"},
      {"Name": "items", "Type": "int", "Values": "[1, 2, 4]"}],
    "Conditions": [{"Parameters": ["block", "items"], "Expression": "64 <= block * items <= 512"}]},
  "KernelSpecification": {"Language": "CUDA", "KernelName": "twice", "KernelFile": "code/twice.cu",
    "ProblemSize": [1024], "LocalSize": {"X": "block"}, "GridDivX": ["block", "items"], "Arguments": [
      {"Name": "x", "Type": "float", "MemoryType": "Vector", "Size": 1024},
      {"Name": "y", "Type": "float", "MemoryType": "Vector", "AccessType": "WriteOnly", "Size": "ProblemSize[0]"},
      {"Name": "n", "Type": "int64", "MemoryType": "Scalar", "FillValue": 1024}]}})json");
  fs::create_directories(tool.path("code"));
  tool.write("code/twice.cu", R"(__global__ void twice(const float* x, float* y, long long n) {
  for (int i = 0; i < items; ++i) {
    const int at = (blockIdx.x * items + i) * block + threadIdx.x;
    if (at < n) y[at] = 2 * x[at];
  }
}
)");
  const std::vector<std::string> command = {"import", tool.path("description.json").string(), "--to",
                                            tool.path("made").string(), "--json"};
  const Json made = document(tool.run(command));
  CHECK(made["legal"] == 10);
  CHECK(made["cartesian"] == 12);
  CHECK(made["left_out"].empty());
  CHECK(made["unfinished"].is_null());
  const std::string folder = tool.path("made").string();
  CHECK(document(tool.run({"space", "twice", "--arch", "sm_90a", "--kernels", folder, "--json"}))["legal"] == 10);
  const Ended compiled = tool.run({"compile", "twice", "--arch", "sm_90a", "--kernels", folder});
  INFO(compiled.err);
  CHECK(compiled.code == 0);
  const Ended again = tool.run(command);
  CHECK(again.code == 2);
  CHECK(contains(again.err, "is there already"));
  CHECK(tool.run({"import", tool.path("nowhere.json").string()}).code == 2);
}

namespace {

Json variant_of(const std::string& entry, const std::string& head = "") {
  Json variant = Json::parse(R"({"parameters": [{"name": "lanes", "values": [32, 64]}],
    "defaults": [{"config": {"lanes": 64}}],
    "launches": [{"grid": 1, "block": "lanes", "arguments": ["x", "y", {"i64": "n"}]}]})");
  variant["source"] = head + "extern \"C\" __global__ void " + entry +
                      "(const float* x, float* y, long long n) { y[threadIdx.x] = 2 * x[threadIdx.x]; }";
  variant["launches"][0]["entry"] = entry;
  return variant;
}

// Sound ones of 30 and 11 microseconds, among others that fail or are no variants.
std::string variants_message() {
  Json all =
      Json::array({variant_of("double__us30"), variant_of("double__wrong__us5"),
                   variant_of("double__us10", "int broken = ;"), variant_of("double__us12", "#include <cuda_fp16.h>\n"),
                   variant_of("double__us13", "#include \"../twice/entry.cuh\"\n"), variant_of("double__us11"),
                   Json{{"source", 7}}, variant_of("double__us11"), variant_of("double__us14")});
  all.back()["launches"][0]["block"] = "threads";
  return Json{{"variants", all}}.dump();
}

}  // namespace

TEST_CASE("a proposer's own sources are judged like candidates, and the best meets the best configuration") {
  Tool tool({{"MOETUNE_LIBCUDA", paths::fake_libcuda()}, {"MOETUNE_FAKE_CUDA", "memory=4194304"}});
  write_twice(tool);
  tool.write("message", variants_message() + "\n{\"done\": true}\n");
  const std::string log = tool.path("log").string();
  const std::vector<std::string> command = {
      "search",   "twice", "--kernels",  tool.path("own").string(),
      "--budget", "6",     "--strategy", "external:cat " + tool.path("message").string() + "; cat > " + log};
  std::vector<std::string> as_json = command;
  as_json.push_back("--json");
  const Json found = document(tool.run(as_json));
  const Json& duel = found["variant"];
  REQUIRE(duel.is_object());
  CHECK(duel["wins"] == true);
  CHECK(duel["time_us"].get<double>() == doctest::Approx(11));
  CHECK(duel["config"] == "lanes=64");
  CHECK(duel["source_digest"].get<std::string>().size() >= 16);
  std::vector<std::string> outcomes, rejected;
  std::istringstream lines(read_text(log));
  for (std::string line; std::getline(lines, line);) {
    const Json one = Json::parse(line);
    if (one.contains("tell") && one["tell"].contains("variant")) outcomes.push_back(one["tell"]["outcome"]);
    if (one.contains("reject")) rejected.push_back(one["reject"]["why"]);
  }
  CHECK(outcomes ==
        std::vector<std::string>{"ok", "wrong_result", "compile_failed", "compile_failed", "compile_failed", "ok"});
  REQUIRE(rejected.size() == 3);
  CHECK(contains(rejected[0], "must be an object with a source"));
  CHECK(contains(rejected[1], "it was tried: variant_"));
  CHECK(contains(rejected[2], "unknown name 'threads'"));

  // The folder is a kernel, whose default is what won.
  const fs::path folder = duel["folder"].get<std::string>();
  const Json kept =
      document(tool.run({"search", duel["name"], "--kernels", folder.string(), "--budget", "2", "--json"}));
  CHECK(kept["default"]["time_us"].get<double>() == doctest::Approx(11));
  const Ended said = tool.run(command);
  CHECK(contains(said.out, "× as fast as the best configuration, with lanes=64: " + folder.string()));
  // The last line of the search is the command that stores a winner of it, beside the kernel's own.
  const std::size_t at = said.err.find("moetune search variant_");
  REQUIRE(at != std::string::npos);
  std::istringstream shown(said.err.substr(at, said.err.find('\n', at) - at));
  std::vector<std::string> words(std::istream_iterator<std::string>(shown), {});
  words.erase(words.begin());
  words.insert(words.end(), {"--budget", "2", "--device", "cuda:0"});
  CHECK(tool.run(words).code == 0);
  const Json stored = document(tool.run({"report", "--kernel", duel["name"], "--kernels", folder.string(), "--json"}));
  CHECK(stored["workloads"].size() == 1);
}

TEST_CASE("a proposer is shown the kernel and what its trials came to, while auto keeps the GPU busy") {
  Tool tool({{"MOETUNE_LIBCUDA", paths::fake_libcuda()}, {"MOETUNE_FAKE_CUDA", "memory=4194304"}});
  write_twice(tool);
  const std::string log = tool.path("log").string();
  const auto search_by = [&](const std::string& strategy) {
    const Ended ended = tool.run({"search", "twice", "--kernels", tool.path("own").string(), "--no-cache", "--budget",
                                  "6", "--json", "--strategy", strategy});
    INFO(ended.err);
    REQUIRE(ended.code == 0);
    return document(ended);
  };
  const Json found = search_by("external:tee " + log + " >/dev/null");  // which says nothing
  CHECK(found["trials"]["total"] == 6);
  CHECK(found["trials"]["wrong_result"] == 2);
  CHECK(found["proposer"]["suggested"] == 0);
  CHECK(found["proposer"]["left_out"].is_null());
  Json hello, told = Json::array();
  std::istringstream lines(read_text(log));
  for (std::string line; std::getline(lines, line);) {
    const Json message = Json::parse(line);
    if (message.contains("hello")) hello = message["hello"];
    if (message.contains("tell")) told.push_back(message["tell"]);
  }
  CHECK(hello["kernel"] == "twice");
  CHECK(hello["dimensions"] == Json{{"n", 1024}});
  CHECK(contains(hello["source"]["templates/twice/twice.cu"].get<std::string>(), "double__us40"));
  CHECK(hello["parameters"][0] == Json{{"name", "way"}, {"values", {0, 1, 2}}, {"doc", ""}});
  CHECK(hello["default"] == Json{{"way", 0}, {"threads", 32}});
  CHECK(hello["limits"]["configs"] == 256);
  CHECK(hello["budget"] == 6);
  REQUIRE(told.size() == 6);
  std::size_t wrong = 0;
  for (const Json& one : told) {
    CHECK(one["registers"].get<int>() > 0);
    CHECK(one["spills"] == 0);
    CHECK(one["shared"] == 0);
    wrong += one["outcome"] == "wrong_result" && one["message"].is_string() && one["config"]["way"] == 2;
    if (one["outcome"] == "ok") CHECK(one["interval"][0].get<double>() <= one["time_us"].get<double>());
  }
  CHECK(wrong == 2);
  const Json drawn = search_by("external:" + paths::source("examples/proposers/random.py"));
  CHECK(drawn["trials"]["total"] == 6);
  CHECK(drawn["proposer"]["left_out"].is_null());
}
