#include "jobs/session/gpu_speed.h"

#include <algorithm>

#include "base/error.h"
#include "jobs/session/gpu_session.h"

namespace moetune {
namespace {

constexpr int kCanaries = 15, kWarmUp = 5;  // 5 ms each: clocks rise within the first ones
constexpr std::size_t kFewestSamples = 5;

}  // namespace

std::optional<double> gpu_speed(const std::string& device, const CacheChoice& cache, const JobContext& context,
                                std::optional<DeviceChoice>* opened) {
  const JobTarget target{.workload = {.kernel = "decode_kernel", .problem = "elements=1024", .preset = ""},
                         .device = device,
                         .cache = cache};
  Session gpu = gpu_session(target, std::nullopt, "retune", context);
  gpu.device().open(*gpu.kernel(), gpu.problem(), 0);
  std::vector<double> samples;
  for (int i = 0; i < kWarmUp + kCanaries; ++i) {
    const std::optional<CanaryReading> reading = gpu.device().canary();
    if (!reading) throw BrokenEnvironment(device + " does not run its canary");
    if (i >= kWarmUp && !reading->is_disturbed() && reading->windows_per_us > 0)
      samples.push_back(reading->windows_per_us);
  }
  if (opened != nullptr) *opened = gpu.release_device();
  return typical_speed(std::move(samples));
}

std::optional<double> typical_speed(std::vector<double> samples) {
  if (samples.size() < kFewestSamples) return std::nullopt;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace moetune
