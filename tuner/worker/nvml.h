// Clocks, temperature, slowdown reasons and other processes of one GPU through NVML, opened at run time (or
// the library that MOETUNE_LIBNVML names). NVML is optional: if it is absent, or does not answer, readings
// are zeros and nothing fails.
//
// Lives in the worker process; not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "launch/device_info.h"

namespace moetune {

class Nvml {
 public:
  // As the CUDA driver gives them. The UUID is the slice's if the GPU is divided (MIG): load and processes are then the
  // slice's own, clocks and settings the whole GPU's.
  explicit Nvml(const std::string& pci_bus_id, const std::string& uuid = "");
  ~Nvml();

  struct Reading {
    int sm_clock_mhz = 0;
    int memory_clock_mhz = 0;
    int temperature_c = 0;
    bool throttled = false;  // power cap, thermal or hardware slowdown is active now
  };
  Reading read() const;

  // Whether the UUID is a slice's.
  bool is_slice() const { return slice_ != nullptr; }

  // The load. All processes but this one and those of other slices count as foreign. nullopt if either figure is
  // unknown.
  std::optional<GpuLoad> load() const;

  // nullopt without NVML.
  std::optional<GpuSettings> settings() const;

  // Compute processes beside this one. nullopt if unknown, as it is if this one is not in the list: in a
  // container NVML may give the host's process ids.
  std::optional<int> other_processes() const;

  // The GPU's NVLinks that are up. nullopt if unknown.
  std::optional<int> nvlinks() const;

  // The way from this GPU to another one.
  struct Path {
    std::string name;  // "NV18", "PIX", "PXB", "PHB", "NODE", "SYS" as nvidia-smi has them, "board"; "": unknown
    std::optional<int> nvlinks;  // nullopt if unknown
  };
  Path path_to(const Nvml& other) const;

  std::string driver_version() const;  // "580.159.04"; empty where unknown

 private:
  struct Library;
  struct Others {
    int foreign = 0;
    bool lists_this_one = false;
  };
  std::optional<Others> others() const;  // nullopt if the list cannot be read

  std::unique_ptr<Library> library_;
  void* device_ = nullptr;
  void* slice_ = nullptr;
};

}  // namespace moetune
