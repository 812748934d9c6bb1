// The devices of one host that a night uses. Free functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "jobs/session/device_choice.h"

namespace moetune {

struct NightDevice {
  std::string name;
  std::optional<DeviceInfo> gpu;  // if the GPUs had to be listed
};

// The devices that `text` means: "all" or "auto" every GPU, "A,B" each of these. Throws BadField for a text that
// names nothing, or one thing twice; BrokenEnvironment for "all" and "auto" without a GPU. A night is unattended, so
// recordings must be named; they may be named several times, and each then stands for a GPU of its own.
std::vector<NightDevice> night_devices(const std::string& text);

// A GPU as far as its canary tells: work done in a microsecond.
inline constexpr double kSlowSibling = 0.03;

// By rates of equal GPUs (nullopt: not known), the positions of those that are at least 3% slower than the others:
// than the median of the others whose rate is known.
std::vector<std::size_t> slow_siblings(const std::vector<std::optional<double>>& rates);

}  // namespace moetune
