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
  // `pci_bus_id` as the CUDA driver gives it.
  explicit Nvml(const std::string& pci_bus_id);
  ~Nvml();

  struct Reading {
    int sm_clock_mhz = 0;
    int memory_clock_mhz = 0;
    int temperature_c = 0;
    bool throttled = false;  // power cap, thermal or hardware slowdown is active now
  };
  Reading read() const;

  // Of processes, all but this one count as foreign. nullopt if either figure is unknown.
  std::optional<GpuLoad> load() const;

  // nullopt without NVML.
  std::optional<GpuSettings> settings() const;

  // Compute processes beside this one. nullopt if unknown, as it is if this one is not in the list: in a
  // container NVML may give the host's process ids.
  std::optional<int> other_processes() const;

  std::string driver_version() const;  // "580.159.04"; empty where unknown

 private:
  struct Library;
  std::unique_ptr<Library> library_;
  void* device_ = nullptr;
};

}  // namespace moetune
