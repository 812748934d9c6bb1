// The machine's NUMA nodes as Linux shows them below /sys (or the folder that MOETUNE_SYSFS names), and host memory
// that lies on one of them. What /sys lacks or garbles is unknown, and nothing fails.
//
// Pure reading, and plain values; a HostSlab owns its memory and belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moetune {

// One that has CPUs. Those without are other memory, such as a GPU's own.
struct NumaNode {
  int number = 0;
  std::string cpus;  // "0-31,64-95"
};

// By number, at most 64; empty if they are unknown.
std::vector<NumaNode> numa_nodes();

// The node that a PCI device hangs on, such as "0000:1b:00.0".
std::optional<int> numa_node_of(const std::string& pci_bus_id);

// Runs the calling thread on the CPUs of a node while it lives. False if the system does not let it.
class OnNode {
 public:
  explicit OnNode(const NumaNode& node);
  ~OnNode();
  OnNode(const OnNode&) = delete;
  OnNode& operator=(const OnNode&) = delete;
  explicit operator bool() const { return moved_; }

 private:
  bool moved_ = false;
  std::vector<unsigned long> before_;
};

// Written pages. The system puts them on the node of the CPU that writes them first, if it has room there.
class HostSlab {
 public:
  explicit HostSlab(std::size_t bytes);
  ~HostSlab();
  HostSlab(const HostSlab&) = delete;
  HostSlab& operator=(const HostSlab&) = delete;

  std::span<std::uint8_t> data() const { return data_; }  // empty if there is too little memory
  // Whether all of it lies on the node, as /proc says. False where it says nothing.
  bool is_on(int node) const;

 private:
  void* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::span<std::uint8_t> data_;
};

}  // namespace moetune
