#include "jobs/session/gpu_session.h"

#include "base/error.h"
#include "jobs/session/kernel_files.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

void check_config_text(const JobTarget& target, const std::optional<std::string>& config) {
  if (!config || !target.workload.kernel) return;
  const Space space = load_space(find_kernel(*target.workload.kernel).name());
  try {
    space.parse_values(*config);
  } catch (const BadInput& error) {
    throw BadField("config", error.what());
  }
}

DeviceChoice stoppable(DeviceChoice choice, std::stop_token stop) {
  choice.device->set_stop(std::move(stop));
  return choice;
}

}  // namespace

GpuSession::GpuSession(const JobTarget& target, const std::optional<std::string>& config,
                       std::string_view job, const JobContext& context, Timing timing)
    : session((check_config_text(target, config),
               stoppable(choose_gpu(target.device, target.workload, job, waits_of(context)), context.stop)),
              {.cache = target.cache, .timing = timing, .stop = context.stop}, context.events) {}

}  // namespace moetune
