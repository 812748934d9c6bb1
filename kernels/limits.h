// A device's limits as plain numbers: the part of a device that planning and constraints may see.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moetune {

struct DeviceLimits {
  int compute_capability = 0;  // 10 * major + minor: 90 for sm_90
  int sm_count = 0;
  std::int64_t shared_per_block = 0;  // bytes, the opt-in maximum of dynamic shared memory
  std::int64_t shared_per_sm = 0;     // bytes
  std::int64_t registers_per_sm = 0;  // 32-bit registers
  int threads_per_sm = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
};

// Bytes of an SM's shared memory that the driver takes for itself with each block.
inline constexpr std::int64_t kReservedShared = 1024;

// The NVRTC target for a compute capability: "sm_90a" where the architecture has an accelerated feature
// set (9.0, 10.0, 10.3, 12.0, ...), else "sm_80", "sm_89".
std::string architecture_name(int compute_capability);

// The published limits of an architecture by name ("sm_80", "sm_90a", ...), so that a machine without a GPU
// can enumerate, plan and compile for it. Throws BadInput for an unknown name, listing the known ones.
DeviceLimits limits_of_architecture(const std::string& architecture);
const std::vector<std::string>& known_architectures();

}  // namespace moetune
