// The calibrate job: the ceilings of a GPU (tuner/ceilings.h), measured with decode_kernel and kept in the
// cache.
#pragma once

#include <string>

#include "jobs/job.h"
#include "launch/device_info.h"
#include "tuner/ceilings.h"

namespace moetune {

struct CalibrateRequest {
  std::string device = "auto";  // a GPU, as in JobTarget
  CacheChoice cache;
};

struct CalibrateResult {
  DeviceInfo device;
  Ceilings ceilings;  // a stop request leaves the rest unknown
  bool interrupted = false;
};

// Tunes both streams and the least launch. Emits CeilingMeasured for each figure. Errors and threads as in
// job.h; BrokenEnvironment also if no configuration works.
CalibrateResult calibrate(const CalibrateRequest& request, const JobContext& context);

// The same as a part of another job: without Finished.
Ceilings measure_ceilings(const DeviceInfo& device, const CacheChoice& cache, const JobContext& context);

}  // namespace moetune
