#include "jobs/compile_job.h"

#include "base/as_field.h"
#include "base/error.h"
#include "jobs/session/device_choice.h"
#include "jobs/session/kernel_files.h"
#include "kernels/entry_name.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "tuner/compile/compiler.h"

namespace moetune {
namespace {

Config config_of(const Space& space, const Assignment& environment, const std::optional<std::string>& text) {
  const std::optional<Config> space_default = space.default_config(environment);
  if (!text && space_default) return *space_default;
  if (!text) throw BadField("config", "no default is legal for this problem and architecture; name a configuration");
  return as_field("config", [&] { return space.parse_config(*text, space_default ? &*space_default : nullptr); });
}

}  // namespace

CompileResult compile(const CompileRequest& request, const std::stop_token& stop) {
  const Kernel& kernel = find_kernel(request.workload.kernel.value_or(""));
  const Problem problem = problem_of(kernel, request.workload);
  const DeviceLimits limits = as_field("arch", [&] { return limits_of_architecture(request.architecture); });
  const Space space = load_space(kernel.name());
  const Assignment environment = expression_environment(problem, limits);
  CompileResult result{.kernel = kernel.name(), .problem = problem.text(), .architecture = request.architecture};
  result.config = config_of(space, environment, request.config);
  result.illegal = space.why_illegal(result.config, environment);
  // A plan is made of configurations that can run only.
  if (const std::string why = space.why_illegal(result.config, environment, Rules::must); !why.empty())
    throw BadField("config", "configuration " + result.config.text() + " cannot run here: " + why);
  result.plan = kernel.plan(result.config, problem, limits);
  const Compiler compiler({.architecture = request.architecture});
  result.toolchain = compiler.toolchain();
  result.build = compiler.compile(result.plan.unit, stop);
  if (result.build.outcome == Outcome::ok) result.unlaunchable = why_unlaunchable(result.plan, result.build, limits);
  return result;
}

Document compile_document(const CompileResult& result) {
  Document document = {{"kernel", result.kernel},
                       {"problem", result.problem},
                       {"architecture", result.architecture},
                       {"toolchain", result.toolchain},
                       {"config", result.config.text()},
                       {"outcome", outcome_name(result.build.outcome)},
                       {"message", result.build.message},
                       {"not_legal_because", text_or_null(result.illegal)},
                       {"cannot_launch_because", text_or_null(result.unlaunchable)},
                       {"cubin_bytes", result.build.cubin.size()},
                       {"seconds", result.build.seconds},
                       {"entries", Document::array()}};
  for (const Launch& launch : result.plan.launches) {
    const auto facts = find_entry(result.build.entries, launch.entry.view());
    if (facts == result.build.entries.end()) continue;
    document["entries"].push_back({{"entry", facts->first},
                                   {"registers", facts->second.registers},
                                   {"spill_store_bytes", facts->second.spill_store_bytes},
                                   {"spill_load_bytes", facts->second.spill_load_bytes},
                                   {"stack_bytes", facts->second.stack_bytes},
                                   {"static_shared", facts->second.static_shared},
                                   {"serialized", facts->second.serialized},
                                   {"dynamic_shared", launch.dynamic_shared},
                                   {"grid", launch.grid},
                                   {"block", launch.block}});
  }
  document["log"] = result.build.log;
  return document;
}

}  // namespace moetune
