#include "jobs/session/gpu_speed.h"

#include <algorithm>

#include "base/error.h"
#include "jobs/session/gpu_session.h"

namespace moetune {
namespace {

constexpr std::size_t kCanaries = 15;  // 5 ms each
constexpr std::size_t kFewestSamples = 5;

}  // namespace

std::optional<double> gpu_speed(const std::string& device, const CacheChoice& cache, const JobContext& context,
                                std::optional<DeviceChoice>* opened) {
  const JobTarget target{.workload = {.kernel = "decode_kernel", .problem = "elements=1024", .preset = ""},
                         .device = device,
                         .cache = cache};
  Session gpu = gpu_session(target, std::nullopt, "retune", context);
  gpu.device().open(*gpu.kernel(), gpu.problem(), 0);
  std::vector<CanaryReading> readings;
  while (readings.size() < kSpeedWarmUp + kCanaries) {
    const std::optional<CanaryReading> reading = gpu.device().canary();
    if (!reading) throw BrokenEnvironment(device + " does not run its canary");
    readings.push_back(*reading);
  }
  if (opened != nullptr) *opened = gpu.release_device();
  return typical_speed(readings);
}

std::optional<double> typical_speed(const std::vector<CanaryReading>& readings) {
  std::vector<double> samples;
  for (std::size_t i = kSpeedWarmUp; i < readings.size(); ++i) {
    if (!readings[i].is_disturbed() && readings[i].windows_per_us > 0) samples.push_back(readings[i].windows_per_us);
  }
  if (samples.size() < kFewestSamples) return std::nullopt;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace moetune
