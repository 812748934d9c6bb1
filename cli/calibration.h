// Measures the ceilings of a GPU (tuner/ceilings.h) with decode_kernel.
#pragma once

#include <stop_token>

#include "cli/options.h"
#include "cli/output.h"
#include "tuner/ceilings.h"
#include "tuner/device.h"

namespace moetune {

// Tunes both streams and the least launch on `device`, stores what was reached and returns it; a stop request
// leaves the rest unknown. Notes the figures as it goes. Throws BrokenEnvironment where the device cannot be
// used or no configuration works.
Ceilings calibrate(const DeviceInfo& device, const CacheChoice& cache, const Output& output,
                   std::stop_token stop);

}  // namespace moetune
