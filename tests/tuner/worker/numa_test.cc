#include "tuner/worker/numa.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/temporary_folder.h"

using namespace moetune;

namespace {

// A folder in place of /sys.
class Sysfs {
 public:
  Sysfs() { setenv("MOETUNE_SYSFS", folder_.path().c_str(), 1); }
  ~Sysfs() { unsetenv("MOETUNE_SYSFS"); }
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = folder_.path() / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void write_node(int number, const std::string& cpus) const {
    write("devices/system/node/node" + std::to_string(number) + "/cpulist", cpus + "\n");
  }
  void write_gpu(const std::string& text) const { write("bus/pci/devices/0000:1b:00.0/numa_node", text); }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("NUMA nodes are those that have CPUs, and a GPU is on the one that its PCI device names") {
  const Sysfs sys;
  sys.write("devices/system/node/online", "0-2,4\n");
  sys.write_node(0, "0-31,64-95");
  sys.write_node(1, "32-63");
  sys.write_node(2, "");  // memory alone, as of a GPU
  sys.write_gpu("1\n");
  const std::vector<NumaNode> nodes = numa_nodes();
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0].cpus == "0-31,64-95");
  CHECK(nodes[1].number == 1);
  CHECK(numa_node_of("0000:1B:00.0") == 1);
  sys.write_gpu("-1\n");
  CHECK(numa_node_of("0000:1b:00.0") == std::nullopt);
}

TEST_CASE("what /sys lacks or garbles is unknown") {
  const Sysfs sys;
  CHECK(numa_nodes().empty());
  CHECK(numa_node_of("0000:1b:00.0") == std::nullopt);
  for (const std::string& online : {std::string("0-99999999"), std::string("1-0"), std::string("nonsense"),
                                    std::string("-1"), std::string(1 << 20, '0'), std::string("0-63,0-64")}) {
    sys.write("devices/system/node/online", online);
    sys.write_node(0, "0");
    CHECK(numa_nodes().empty());
  }
  sys.write("devices/system/node/online", "0");
  sys.write_node(0, "0-9999999");
  CHECK(numa_nodes().empty());
  for (const std::string& text : {std::string("1 1"), std::string("99999999999"), std::string(5000, '1')}) {
    sys.write_gpu(text);
    CHECK(numa_node_of("0000:1b:00.0") == std::nullopt);
  }
  sys.write("secret/numa_node", "3");
  CHECK(numa_node_of("../../../secret") == std::nullopt);
  CHECK(numa_node_of("") == std::nullopt);
}

TEST_CASE("a slab is written whole, and is on no node that does not exist") {
  const HostSlab slab(100'000);
  REQUIRE(slab.data().size() == 100'000);
  CHECK(slab.data().back() == 1);
  CHECK_FALSE(slab.is_on(63));
}
