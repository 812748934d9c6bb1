#include "soundness/stored_key.h"

#include "base/error.h"
#include "kernels/registry.h"

namespace moetune {

DeviceLimits stored_limits(const HardwareKey& hardware) {
  DeviceLimits limits = limits_of_architecture(architecture_name(hardware.compute_capability));
  limits.sm_count = hardware.sm_count;
  limits.l2_bytes = hardware.l2_bytes;
  limits.memory_bytes = hardware.memory_bytes;
  return limits;
}

std::string stored_family(const WorkloadKey& key) {
  const Kernel* const kernel = known_kernel(key.kernel);
  if (kernel == nullptr) return "";
  try {
    return kernel->specialization(stored_problem(*kernel, key)).text();
  } catch (const BadInput&) {
    return "";
  }
}

Problem stored_problem(const Kernel& kernel, const std::string& text) {
  Problem problem = parse_problem(kernel.name(), kernel.schema(), nullptr, text);
  kernel.check(problem);
  return problem;
}

Problem stored_problem(const Kernel& kernel, const WorkloadKey& key) {
  return stored_problem(kernel, key.problem);
}

}  // namespace moetune
