#include "cli/gpu_command.h"

#include "cli/text.h"
#include "kernels/registry.h"

namespace moetune {

void GpuCommand::declare_common(OptionTable& table, std::string_view config_doc, std::string_view seed_doc) {
  declare_workload(table, workload_, true);
  table.text("config", "CONFIG", config_, config_doc);
  table.whole("seed", seed_, 0, 1'000'000'000, seed_doc);
  declare_gpu(table, device_);
  declare_cache(table, cache_);
}

Session GpuCommand::open(const Output& output, std::stop_token stop) const {
  // Before a GPU is looked for: what is wrong with the text is wrong on every machine.
  if (config_) load_space(find_kernel(workload_.kernel.value()).name()).parse_values(*config_);
  DeviceChoice choice = choose_gpu(device_, workload_, name());
  choice.device->set_stop(std::move(stop));
  return Session(std::move(choice), cache_, {}, output);
}

Document workload_document(const Session& session) {
  return {{"kernel", session.kernel_name()},
          {"problem", session.problem().text()},
          {"device", device_document(session.info())}};
}

std::string cubin_source(const Candidate& candidate, bool stored) {
  if (stored) return "stored";
  return candidate.build != nullptr && candidate.build->seconds > 0 ? "compiled" : "cached";
}

std::string programs_text(const Session& session) {
  const std::size_t count = session.programs_compiled();
  return count == 0 ? "the references and the harness came from the cache\n"
                    : format("%zu of the references and the harness were compiled for this\n", count);
}

}  // namespace moetune
