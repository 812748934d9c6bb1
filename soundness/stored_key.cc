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

KnownWorkload known_workload(const WorkloadKey& key, const KnownKernel& known) {
  KnownWorkload workload{known};
  try {
    if (known.kernel != nullptr) {
      Problem problem = stored_problem(*known.kernel, key);
      workload.family = known.kernel->specialization(problem).text();
      workload.problem = std::move(problem);
    }
  } catch (const BadInput& error) {
    workload.wrong_problem = error.what();
  }
  try {
    workload.limits = stored_limits(key.hardware);
  } catch (const BadInput&) {  // another version's architecture
  }
  return workload;
}

std::string stored_family(const WorkloadKey& key) {
  return known_workload(key, {.kernel = known_kernel(key.kernel)}).family;
}

Problem stored_problem(const Kernel& kernel, const std::string& text) {
  Problem problem = kernel.parse(text);
  kernel.check(problem);
  return problem;
}

Problem stored_problem(const Kernel& kernel, const WorkloadKey& key) { return stored_problem(kernel, key.problem); }

}  // namespace moetune
