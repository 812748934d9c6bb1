#include "jobs/session/job.h"

#include "base/as_field.h"
#include "base/error.h"
#include "base/suggest.h"
#include "kernels/registry.h"

namespace moetune {

Problem problem_of(const Kernel& kernel, const WorkloadSpec& spec) {
  const Preset* preset = nullptr;
  std::vector<std::string> names;
  for (const Preset& candidate : kernel.presets()) {
    if (candidate.name == spec.preset) preset = &candidate;
    names.push_back(candidate.name);
  }
  if (preset == nullptr && !spec.preset.empty()) {
    const std::string advice = kernel.advice_for_unknown_preset(spec.preset);
    throw BadField("preset", unknown_name("preset of " + kernel.name(), spec.preset, names) +
                                 (advice.empty() ? "" : ". " + advice));
  }
  return as_field("problem", [&] {
    Problem problem = kernel.parse(spec.problem, preset);
    kernel.check(problem);
    return problem;
  });
}

KernelProblem kernel_problem(const WorkloadSpec& spec) {
  if (!spec.kernel) throw BadField("kernel", "it is needed unless the device is one recording");
  const Kernel& kernel = find_kernel(*spec.kernel);
  return {&kernel, problem_of(kernel, spec)};
}

}  // namespace moetune
