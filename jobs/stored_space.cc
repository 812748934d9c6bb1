#include "jobs/stored_space.h"

#include "base/error.h"
#include "jobs/kernel_files.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"

namespace moetune {
DeviceLimits stored_limits(const HardwareKey& hardware) {
  DeviceLimits limits = limits_of_architecture(architecture_name(hardware.compute_capability));
  limits.sm_count = hardware.sm_count;
  limits.l2_bytes = hardware.l2_bytes;
  limits.memory_bytes = hardware.memory_bytes;
  return limits;
}

StoredSpaces::Known* StoredSpaces::find(const std::string& kernel) {
  if (known_kernel(kernel) == nullptr) return nullptr;
  auto found = known_.find(kernel);
  if (found == known_.end())
    found = known_.emplace(kernel, Known{load_space(kernel), kernel_source_digest(kernel)}).first;
  return &found->second;
}

const Space* StoredSpaces::space(const WorkloadKey& key) {
  const Known* known = find(key.kernel);
  return known == nullptr ? nullptr : &known->space;
}

bool StoredSpaces::is_current(const WorkloadKey& key) {
  std::string_view digest = key.source_digest;
  if (is_recording(key)) digest.remove_prefix(kRecordingMark.size());
  const Known* known = find(key.kernel);
  return known != nullptr && known->source_digest == digest;
}

std::optional<Config> StoredSpaces::default_config(const WorkloadKey& key) {
  const Space* known = space(key);
  if (known == nullptr) return std::nullopt;
  try {
    const Problem problem = stored_problem(find_kernel(key.kernel), key);
    return known->default_config(expression_environment(problem, stored_limits(key.hardware)));
  } catch (const BadInput&) {
    return std::nullopt;
  }
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

Problem stored_problem(const Kernel& kernel, const WorkloadKey& key) {
  Problem problem = parse_problem(kernel.name(), kernel.schema(), nullptr, key.problem);
  kernel.check(problem);
  return problem;
}

}  // namespace moetune
