// How fast a GPU is by its canary: the work of a test kernel in a microsecond. For comparing GPUs of one kind.
//
// Free functions; a job as in job.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "jobs/session/device_choice.h"

namespace moetune {

// nullopt if somebody else used the GPU. Throws BrokenEnvironment if it does not work, Stopped. `opened` receives the
// GPU as it was opened for this, if it is not null: what comes next need not start a worker.
std::optional<double> gpu_speed(const std::string& device, const CacheChoice& cache, const JobContext& context,
                                std::optional<DeviceChoice>* opened = nullptr);

inline constexpr std::size_t kSpeedWarmUp = 5;  // readings within which clocks rise

// The median of the readings after the warm-up; nullopt with fewer than five undisturbed ones.
std::optional<double> typical_speed(const std::vector<CanaryReading>& readings);

}  // namespace moetune
