#include "jobs/session/gpu_session.h"

#include "base/as_field.h"
#include "base/error.h"
#include "jobs/session/kernel_files.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

void check_config_text(const JobTarget& target, const std::optional<std::string>& config) {
  if (!config || !target.workload.kernel) return;
  const Space space = load_space(find_kernel(*target.workload.kernel).name());
  as_field("config", [&] { space.parse_values(*config); });
}

}  // namespace

Session gpu_session(const JobTarget& target, const std::optional<std::string>& config, std::string_view job,
                    const JobContext& context, Timing timing) {
  check_config_text(target, config);
  DeviceChoice choice = choose_device(target.device, target.workload, {.gpu_job = job, .waits = waits_of(context)});
  choice.device->set_stop(context.stop);
  return Session(std::move(choice), {.cache = target.cache, .timing = timing, .stop = context.stop}, context.events);
}

}  // namespace moetune
