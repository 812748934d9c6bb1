// What a device is, as plain data: its hardware key, its limits, and how a user names it. A plain value.
#pragma once

#include <string>

#include "cache/key.h"
#include "kernels/limits.h"

namespace moetune {

struct DeviceInfo {
  HardwareKey key;
  DeviceLimits limits;
  std::string architecture;  // NVRTC target: "sm_90a"
  std::string id;            // as the user names it: "cuda:0", "replay:FILE"
  bool recorded = false;     // times come from a recording
};

}  // namespace moetune
