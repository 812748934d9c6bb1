// Where driver and compiler are the stand-ins of tests/fake_cuda and tests/fake_nvrtc: what the tool makes of a
// GPU without running a kernel.
#include "tests/cli/tool.h"
#include "tests/paths.h"

using namespace moetune::testing;

namespace {

std::map<std::string, std::string> driver(const std::string& directives = "") {
  return {{"MOETUNE_LIBCUDA", paths::fake_libcuda()},
          {"MOETUNE_FAKE_CUDA", directives},
          {"MOETUNE_NVRTC", paths::fake_nvrtc()},
          {"MOETUNE_LIBNVML", "/nowhere/libnvidia-ml.so.1"}};
}

}  // namespace

TEST_CASE("devices lists every GPU with its limits, without a ceiling before it is calibrated") {
  Tool tool(driver("devices=2"));
  const Json found = document(tool.run({"devices", "--json"}));
  REQUIRE(found["gpus"].size() == 2);
  CHECK(found["why_none"].is_null());
  CHECK(found["gpus"][1]["id"] == "cuda:1");
  CHECK(found["gpus"][1]["architecture"] == "sm_90a");
  CHECK(found["gpus"][1]["sm_count"].get<int>() > 0);
  CHECK(found["gpus"][1]["read_tb_s"].is_null());
  CHECK(contains(tool.run({"devices"}).out, "not measured: --calibrate"));
}

TEST_CASE("devices --topology shows what lies between GPUs, and '?' for what nobody knows") {
  auto environment = driver("devices=3");
  environment["MOETUNE_LIBNVML"] = paths::fake_libnvml();
  environment["MOETUNE_FAKE_NVML"] = "links0=18,links1=18,ancestor0=50,ancestor1=20";
  Tool tool(environment);
  tool.write("online", "0-1\n");
  namespace fs = std::filesystem;
  const fs::path sys = tool.path("sys"), nodes = sys / "devices/system/node";
  for (const int node : {0, 1}) fs::create_directories(nodes / ("node" + std::to_string(node)));
  fs::rename(tool.path("online"), nodes / "online");
  std::ofstream(nodes / "node0/cpulist") << "0-31\n";
  std::ofstream(nodes / "node1/cpulist") << "32-63\n";
  fs::create_directories(sys / "bus/pci/devices/0000:02:00.0");
  std::ofstream(sys / "bus/pci/devices/0000:02:00.0/numa_node") << "1\n";
  tool.set_environment("MOETUNE_SYSFS", sys.string());

  const Json found = document(tool.run({"devices", "--topology", "--json"}));
  CHECK(found["gpus"][0]["numa_node"].is_null());
  CHECK(found["gpus"][2]["numa_node"] == 1);
  CHECK(found["gpus"][0]["nvlinks"] == 18);
  CHECK(found["gpus"][2]["nvlinks"] == 0);
  CHECK(found["numa_nodes"][1]["cpus"] == "32-63");
  REQUIRE(found["pairs"].size() == 3);
  CHECK(found["pairs"][0] ==
        Json{{"from", "cuda:0"}, {"to", "cuda:1"}, {"path", "NV18"}, {"nvlinks", 18}, {"peer_access", true}});
  CHECK(found["pairs"][1]["path"] == "SYS");
  CHECK(found["pairs"][2]["path"] == "PXB");
  tool.set_environment("MOETUNE_FAKE_CUDA", "devices=3,oneway");
  CHECK(document(tool.run({"devices", "--topology", "--json"}))["pairs"][0]["peer_access"] == false);
  tool.set_environment("MOETUNE_FAKE_CUDA", "devices=3");

  const Ended table = tool.run({"devices", "--topology"});
  CHECK(contains(table.out, "cuda:0  0000:00:00.0  ?          18       -       NV18    SYS\n"));
  CHECK(contains(table.out, "NUMA node 1: CPUs 32-63\n"));

  tool.set_environment("MOETUNE_FAKE_NVML", "links0=4,links1=4,direct0=1,down0=2,nolinks2=1,ancestor1=35");
  tool.set_environment("MOETUNE_FAKE_CUDA", "devices=3,strangers");
  const Ended other = tool.run({"devices", "--topology"});
  CHECK(contains(other.out, "cuda:0  0000:00:00.0  ?          4        -            NV4, no P2P  PHB, no P2P\n"));
  CHECK(contains(other.out, "cuda:2  0000:02:00.0  1          ?        PHB, no P2P  ?, no P2P    -\n"));

  tool.set_environment("MOETUNE_LIBNVML", "/nowhere/libnvidia-ml.so.1");
  tool.set_environment("MOETUNE_SYSFS", "/nowhere");
  const Ended nothing = tool.run({"devices", "--topology"});
  CHECK(nothing.code == 0);
  CHECK(contains(nothing.out, "cuda:2  0000:02:00.0  ?          ?        ?, no P2P"));
  CHECK(contains(nothing.out, "The NUMA nodes of this machine are unknown.\n"));
  CHECK(tool.run({"devices", "--topology", "--calibrate"}).code == 2);
}

TEST_CASE("a driver without a GPU says why, and devices is still done") {
  Tool tool(driver("init=100"));
  const Ended ended = tool.run({"devices", "--json"});
  CHECK(ended.code == 0);
  const Json found = document(ended);
  CHECK(found["gpus"].empty());
  CHECK(contains(found["why_none"], "CUDA_ERROR_NO_DEVICE"));
}

TEST_CASE("devices states the compiler, or why nothing can be compiled, and is done all the same") {
  Tool tool(driver());
  CHECK(contains(tool.run({"devices"}).out, "Compiler: nvrtc 99.0.1\n"));
  const Json found = document(tool.run({"devices", "--json"}));
  CHECK(found["compiler"] == "nvrtc 99.0.1");
  CHECK(found["why_no_compiler"].is_null());

  tool.set_environment("MOETUNE_NVRTC", "/nowhere/libnvrtc.so.13");
  const Ended ended = tool.run({"devices"});
  CHECK(ended.code == 0);
  CHECK(contains(ended.out, "Nothing can be compiled here: MOETUNE_NVRTC: cannot open /nowhere/libnvrtc.so.13"));
  const Json none = document(tool.run({"devices", "--json"}));
  CHECK(none["compiler"].is_null());
  CHECK(contains(none["why_no_compiler"], "/nowhere/libnvrtc.so.13"));
}

TEST_CASE("no recording stands in for a driver that is there and broken") {
  Tool broken(driver("init=999"));
  const Ended ended = broken.run({"search", "decode_attention", "--budget", "3", "--no-compile", "--no-cache"});
  CHECK(ended.code == 3);
  CHECK(contains(ended.err, "cuInit"));
  Tool none(driver("init=100"));
  CHECK(none.run({"search", "decode_attention", "--budget", "3", "--no-compile", "--no-cache"}).code == 0);
}

TEST_CASE("devices shows what other processes use of a GPU, and how it can be named") {
  auto environment = driver("devices=2");
  environment["MOETUNE_LIBNVML"] = paths::fake_libnvml();
  environment["MOETUNE_FAKE_NVML"] = "busy1=2,free1=4096";
  Tool tool(environment);
  const Json second = document(tool.run({"devices", "--json"}))["gpus"][1];
  CHECK(second["foreign_processes"] == 2);
  CHECK(second["free_bytes"] == 4096);
  CHECK(second["pci_bus_id"] == "0000:01:00.0");
  CHECK(second["uuid"] == "GPU-01ababab-abab-abab-abab-abababababab");
  CHECK(contains(tool.run({"devices"}).out, "2 other processes, 4.0 KiB free"));
}

TEST_CASE("without NVML auto takes the first GPU, and its limits bound the space") {
  Tool tool(driver());
  const Json found = document(tool.run({"space", "decode_kernel", "--json"}));
  CHECK(found["limits_of"] == "Fake GPU 0");
  CHECK(found["legal"].get<double>() > 0);
  CHECK(found["legal"].get<double>() < found["cartesian"].get<double>());
  CHECK(found["default"].is_string());
  std::size_t stages = 0;
  for (const Json& value : found["parameters"][3]["values"]) stages += value["legal"].get<std::size_t>();
  CHECK(stages == found["legal"].get<std::size_t>());  // every configuration has one value of each
}

TEST_CASE("a GPU that is not there is named, and so is how many there are") {
  Tool tool(driver());
  const Ended ended = tool.run({"search", "decode_kernel", "--device", "cuda:5", "--json"});
  CHECK(ended.code == 3);
  CHECK(contains(document(ended)["error"]["message"], "no cuda:5"));
}

TEST_CASE("a GPU measures compiled kernels only") {
  Tool tool(driver());
  const Ended ended = tool.run({"search", "decode_kernel", "--problem", "elements=1024", "--no-compile"});
  CHECK(ended.code == 2);
  CHECK(contains(ended.err, "--no-compile: it is for recordings"));
}

TEST_CASE("verify and bench without a stored winner say how to get one") {
  Tool tool(driver());
  for (const std::string command : {"verify", "bench"}) {
    CAPTURE(command);
    const Ended ended = tool.run({command, "decode_kernel", "--problem", "elements=1024"});
    CHECK(ended.code == 2);
    CHECK(contains(ended.err, "start with: moetune search decode_kernel --problem elements=1024"));
  }
}

TEST_CASE("search, record and verify name the constraints that leave nothing, and what they read") {
  Tool home;
  const std::filesystem::path data = home.copy_data();
  Tool::constrain(data, "decode_kernel", "stages / (problem.elements - 1024) > warps");
  std::map<std::string, std::string> environment = driver();
  environment["MOETUNE_DATA_DIR"] = data.string();
  Tool tool(environment);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"search"}, {"verify"}, {"record", "--output", home.path("r").string()}}) {
    std::vector<std::string> command = words;
    command.insert(command.begin() + 1, {"decode_kernel", "--problem", "elements=1024", "--no-cache"});
    const Ended ended = tool.run(command);
    CAPTURE(ended.err);
    CHECK(ended.code == 2);
    CHECK(contains(ended.err, "no configuration of decode_kernel is legal"));
    CHECK(contains(ended.err, "few, for a test"));
    CHECK(contains(ended.err, "without a value"));
    CHECK(contains(ended.err, "problem.elements=1024"));
  }
}
