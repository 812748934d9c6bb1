#include "kernels/kernel.h"

namespace moetune {

Assignment expression_environment(const Problem& problem, const DeviceLimits& limits) {
  Assignment environment;
  for (const auto& [name, value] : problem.dims) environment.set("problem." + name, value);
  const std::pair<const char*, std::int64_t> device[] = {
      {"device.compute_capability", limits.compute_capability},
      {"device.sm_count", limits.sm_count},
      {"device.shared_per_block", limits.shared_per_block},
      {"device.shared_per_sm", limits.shared_per_sm},
      {"device.registers_per_sm", limits.registers_per_sm},
      {"device.threads_per_sm", limits.threads_per_sm},
      {"device.l2_bytes", limits.l2_bytes},
  };
  for (const auto& [name, value] : device) environment.set(name, Value::integer(value));
  return environment;
}

}  // namespace moetune
