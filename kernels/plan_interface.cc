#include "kernels/plan_interface.h"

#include "base/digest.h"

namespace moetune {

std::string interface_digest(const CompileUnit& unit, const LaunchPlan& plan) {
  DigestBuilder builder;
  // Macros say what lies where in shared memory.
  for (const auto& [name, value] : unit.defines) builder.add(name).add(value);
  for (const Scratch& scratch : plan.scratch) builder.add(scratch.name.view()).add(scratch.zeroed ? "zeroed" : "");
  for (const Memset& memset : plan.memsets) {
    builder.add(memset.buffer.view());
    if (!memset.symbol.empty()) builder.add(memset.symbol.view());
  }
  for (const Launch& launch : plan.launches) {
    builder.add(launch.entry.view());
    for (const std::uint32_t threads : launch.block) builder.add(std::to_string(threads));
    for (const Argument& argument : launch.arguments)
      builder.add(argument.name.view()).add(std::to_string(argument.value.index()));
  }
  return builder.finish();
}

}  // namespace moetune
