// A device as plain data: its hardware key, its limits, and how a user names it. A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/limits.h"
#include "keys/key.h"

namespace moetune {

// How busy a GPU was when it was listed.
struct GpuLoad {
  int foreign_processes = 0;  // with a compute context there, the asking worker apart
  std::int64_t free_bytes = 0;
};

// Settings of a GPU that an administrator may change, as they were when it was listed. Those that NVML does not
// report are unknown.
struct GpuSettings {
  int power_limit_w = 0;         // 0: unknown
  std::optional<bool> mig, ecc;  // switched on
};

struct DeviceInfo {
  HardwareKey key;
  DeviceLimits limits;
  int memory_bus_bits = 0;              // 0: unknown, as of a recording; no part of the key
  std::string architecture;             // NVRTC target: "sm_90a"
  std::string id;                       // as the user names it: "cuda:0", "replay:FILE"
  std::string pci_bus_id;               // "0000:1b:00.0"; empty for a recording
  std::string uuid;                     // "GPU-1b2c3d4e-..."; empty for a recording
  std::optional<GpuLoad> load;          // nullopt for a recording, and if NVML does not say
  std::optional<GpuSettings> settings;  // nullopt for a recording, and without NVML
  bool recorded = false;                // times come from a recording
};

}  // namespace moetune
