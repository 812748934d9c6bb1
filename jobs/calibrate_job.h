// The calibrate job: the ceilings of a GPU (tuner/ceilings.h), measured with decode_kernel and
// tensor_ceiling, and what copies and launches cost around it; kept in the cache.
#pragma once

#include <cstdint>
#include <string>

#include "jobs/session/job.h"
#include "launch/device_info.h"
#include "tuner/ceilings.h"
#include "tuner/tune.h"

namespace moetune {

struct CalibrateRequest {
  std::string device = "auto";  // a GPU, as in JobTarget
  CacheChoice cache;
  std::uint64_t quiet_wait_s = TuneSettings{}.quiet_wait_s;  // for each figure
};

struct CalibrateResult {
  DeviceInfo device;
  Ceilings ceilings;  // a stop request leaves the rest unknown
  bool interrupted = false;
};

// Tunes the streams, the least launch and the matrix products, each for half a minute at most, and measures copies and
// launches of the machine around the GPU. Emits CeilingMeasured for each figure, and a warning for one that cannot be
// measured here. Errors and threads as in job.h; BrokenEnvironment also if the read ceiling cannot be measured, as it
// cannot while somebody else uses the GPU.
CalibrateResult calibrate(const CalibrateRequest& request, const JobContext& context);

// The same as a part of another job: without the machine and without Finished. `complete`, unless null, says whether
// nothing stopped it.
Ceilings measure_ceilings(const DeviceInfo& device, const CacheChoice& cache, const JobContext& context,
                          std::uint64_t quiet_wait_s, bool* complete = nullptr);

}  // namespace moetune
